"""bandwidth: how fast this machine moves memory, to estimate what has not been measured.

    seconds = weight_bytes / bandwidth(threads=2)

A pass over few rows is bound by reading the weights, so this gives its time roughly: some kernels do
not reach it, others read faster than a copy. Knows nothing of models.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

SIZE = 64 << 20  # bytes copied at a time; with their copy, more than a core's share of any cache
_SECONDS = 0.1  # after which no further copy begins
_COPIES = 5


def bandwidth(threads: int) -> float:
    """Bytes a second, read and written, of the best of a few copies by so many threads."""
    source = np.ones(SIZE, np.uint8)
    target = np.zeros_like(source)
    parts = list(zip(np.array_split(target, threads), np.array_split(source, threads), strict=True))
    best, begin = float("inf"), time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda part: np.copyto(*part), parts))  # threads are started, pages are there
        for _ in range(_COPIES):
            began = time.perf_counter()
            list(pool.map(lambda part: np.copyto(*part), parts))
            best = min(best, time.perf_counter() - began)
            if time.perf_counter() - begin > _SECONDS:
                break
    return 2 * SIZE / best

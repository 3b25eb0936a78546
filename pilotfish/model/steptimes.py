"""Step times: what a pass of so many rows costs on this machine, measured at first start.

    steps = measure(runner, form)
    steps.seconds(8)        # interpolated between the measured row counts

On CPUs the curve is a staircase (a matrix kernel works on blocks of rows), so it is a table, not a
slope. Knows nothing of acceptance or proposers.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pilotfish.model.runner import Form, Runner, Slice

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 32)
_CONTEXT = 256
_REPEATS = 4


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one pass by its rows, of one sequence at a middling context."""

    table: Mapping[int, float]

    def __post_init__(self) -> None:
        rows = sorted(self.table)
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_seconds", [self.table[count] for count in rows])

    def seconds(self, rows: int) -> float:
        """The cost of a pass; linear between measured counts, proportional beyond the last."""
        counts: list[int] = self._rows  # type: ignore[attr-defined]
        seconds: list[float] = self._seconds  # type: ignore[attr-defined]
        place = bisect_left(counts, rows)
        if place == len(counts):
            return seconds[-1] * rows / counts[-1]
        if place == 0 or counts[place] == rows:
            return seconds[place]
        share = (rows - counts[place - 1]) / (counts[place] - counts[place - 1])
        return seconds[place - 1] + share * (seconds[place] - seconds[place - 1])


def measure(runner: Runner, form: Form, *, repeats: int = _REPEATS) -> StepTimes:
    """Time passes of one sequence, the row counts interleaved, the best of `repeats` taken: what a
    busy neighbour adds to one of them is no property of the pass.

    The runner must not hold anything: its first blocks are written over.
    """
    start = min(_CONTEXT, runner.context // 2)
    blocks = list(range(-(-(start + max(ROWS)) // runner.block_size)))
    tokens = [int(token) for token in np.random.default_rng(7).integers(0, runner.vocab, start + max(ROWS))]
    for begin in range(0, start, 32):
        runner.forward([Slice(tokens[begin : min(begin + 32, start)], begin, blocks, range(0))])
    counts = [
        rows for rows in ROWS if form.min_tokens <= rows <= form.max_rows and start + rows <= runner.context
    ]
    taken: dict[int, list[float]] = {rows: [] for rows in counts}
    for _ in range(repeats):
        for rows in counts:
            part = Slice(tokens[start : start + rows], start, blocks, range(rows))
            began = time.perf_counter()
            runner.forward([part])
            taken[rows].append(time.perf_counter() - began)
    return StepTimes({rows: min(times) for rows, times in taken.items()})

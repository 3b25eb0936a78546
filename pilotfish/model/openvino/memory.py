"""Compile a model without holding its weights twice.

    with exact_allocations():
        stored = stored_decoder(checkpoint, "int8")
        with giving_back(stored.mapped):
            compiled = core.compile_model(stored.model, "CPU")

The plugin copies weights out of the mapped file into an order of its own. Two things would keep a first
copy in memory: the system keeps mapped pages as long as it likes, and the C library keeps freed blocks of
up to 32 MiB for later once a larger one was freed. Knows nothing of models.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pilotfish.model.weights.mapped import give_back
from pilotfish.model.weights.tensors import Array

_PAUSE = 0.02  # seconds between two rounds: enough for some ten MB of pages
_MMAP_THRESHOLD = -3  # M_MMAP_THRESHOLD of malloc.h: freed blocks above it go back to the system at once
_EXACT, _USUAL = 1 << 18, 1 << 25  # the usual one grows up to 32 MiB by itself, until it is set


@contextmanager
def exact_allocations() -> Iterator[None]:
    """While the block runs, memory of large arrays goes back to the system as soon as it is freed. To be
    entered before the first of them is made. Without glibc nothing happens."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", lambda *_: None)
    set_option(_MMAP_THRESHOLD, _EXACT)
    try:
        yield
    finally:
        set_option(_MMAP_THRESHOLD, _USUAL)


@contextmanager
def giving_back(mapped: Array | None) -> Iterator[None]:
    """Give the pages of a mapped file (if any) back again and again while the block runs, and at its end."""
    if mapped is None:
        yield
        return
    done = Event()

    def run() -> None:
        while not done.wait(_PAUSE):
            give_back(mapped)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        give_back(mapped)

"""Mapped files: their bytes without reading them, and their pages given back when they were used.

    stored = map_file(Path("model.gguf"))       # uint8, read-only
    convert(stored[:1_000_000])
    give_back(stored)                           # no page of it counts as this process's memory any more

The system keeps a mapped page for as long as it likes, so that a conversion would hold the file beside
what it makes of it. A page that was given back is read again when it is touched. Knows nothing of what
is in a file.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from pilotfish.errors import BadModel
from pilotfish.model.weights.tensors import Array


def map_file(path: Path, *, mode: str = "r") -> Array:
    """The bytes of a file, memory-mapped; mode "c" for a reader that insists on writable memory.
    Raises BadModel where that fails."""
    try:
        if path.stat().st_size == 0:
            raise BadModel(f"{path}: the file is empty. Fetch the model again.")
        return np.memmap(path, dtype=np.uint8, mode=mode)  # type: ignore[call-overload,no-any-return]
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise BadModel(f"{path}: cannot read it ({reason}). Check the path, or fetch it again.") from None


def give_back(mapped: Array) -> None:
    """Let the system take the pages of a mapped file (of `map_file`); its bytes stay as they are."""
    if isinstance(mapped.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapped.base.madvise(mmap.MADV_DONTNEED)

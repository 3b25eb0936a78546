"""Continuation: one choice of one request, as verification sees it.

    continuation.push(5)                       # what if 5 came next?
    scores = continuation.scores(row)          # processed as if it had
    continuation.pop()                         # it has not
    finished = continuation.append(7, row)     # 7 it is; True: nothing may follow

Knows nothing of drafts, of rules, or of where rows come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pilotfish.sampling import Noise, Scores

Row = NDArray[np.float32]  # [vocab], raw logits
Law = NDArray[np.float64]  # [vocab], non-negative, sums to 1
RowAt = Callable[[int], Row]  # the logits after a draft node, or after ROOT


class Continuation(Protocol):
    """A sequence that can be looked ahead in (`push`, `pop`) and extended (`append`)."""

    @property
    def position(self) -> int:
        """The absolute position of the next token: prompt and output so far, hypothesis or not
        (the rules only read it while nothing is pushed)."""
        ...

    @property
    def noise(self) -> Noise: ...

    @property
    def vocab(self) -> int: ...

    def scores(self, row: Row) -> Scores:
        """The row after every processor, with the history as it stands (pushed tokens count)."""
        ...

    def push(self, token: int) -> None:
        """Suppose that a token came next. Reaches only the history: no stop is checked."""
        ...

    def pop(self) -> object:
        """Take the last supposition back (whatever is returned is not looked at)."""
        ...

    def append(self, token: int, row: Row) -> bool:
        """Commit a token drawn from a row (logprobs are the row's); True when it ends the request."""
        ...

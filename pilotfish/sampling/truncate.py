"""Truncation: which ids survive min-p, top-k and top-p.

    truncate(scores, best, min_p=0.0, top_k=50, top_p=0.95)     # ascending ids, or None: all

All three keep the best ids down to some level, so none has to sort the vocabulary: find the
level, keep what lies above it, and of those exactly at it the lowest ids.

Knows nothing of temperature, penalties, history or noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_BLOCK = 64  # narrow enough that the block maxima of 49,152 ids bound a top-k of several hundred
_PART = 512
_GUESSES = (256, 4096)  # fractions of 1 - top_p: the higher the bound, the less there is to sort


def truncate(
    values: NDArray[np.float32], best: int, *, min_p: float, top_k: int, top_p: float
) -> NDArray[np.int64] | None:
    """The ascending ids that survive; None where no truncation is on. At least one survives.

    `values` are [vocab] scores after temperature, `best` is the id of their maximum.
    """
    peak = values[best]
    ids: NDArray[np.int64] | None = None
    if min_p > 0.0:
        ids = np.flatnonzero(values >= np.float32(float(peak) + math.log(min_p)))
        values = values[ids]
    if 0 < top_k < len(values):
        kept = _best(values, _kth_best(values, top_k), top_k)
        ids = kept if ids is None else ids[kept]
        values = values[kept]
    if top_p < 1.0:
        kept = _top_p(values, peak, top_p)
        ids = kept if ids is None else ids[kept]
    return ids


def _best(values: NDArray[np.float32], level: np.float32, count: int) -> NDArray[np.int64]:
    """Ascending indices of the `count` best, whose least value is `level`."""
    kept = np.flatnonzero(values >= level)
    if len(kept) == count:
        return kept
    above = values > level  # too many lie exactly at the level: of those, the lowest ids stay
    ties = np.flatnonzero(values == level)
    above[ties[: count - np.count_nonzero(above)]] = True
    return np.flatnonzero(above)


def _kth_best(values: NDArray[np.float32], k: int) -> np.float32:
    """The k-th best value, counted with multiplicity."""
    blocks = len(values) // _BLOCK
    if 2 * k <= blocks:
        # k blocks have a maximum >= floor, so at least k values do: the k-th best is among those.
        maxima = values[: blocks * _BLOCK].reshape(blocks, _BLOCK).max(axis=1)
        floor = np.partition(maxima, blocks - k)[blocks - k]
        values = values[np.flatnonzero(values >= floor)]
    level: np.float32 = np.partition(values, len(values) - k)[len(values) - k]
    return level


def _top_p(values: NDArray[np.float32], peak: np.float32, top_p: float) -> NDArray[np.int64]:
    """Ascending indices of the smallest set of best values with mass >= top_p.

    The set is a prefix of the values in descending order. If all values above some bound have
    mass >= top_p together, that prefix lies above the bound and nothing below needs sorting. The
    last bound always qualifies: fewer than len(values) ids, each below (1 - top_p) / len(values),
    have less than 1 - top_p together. The bounds before it are guesses; the first is nearly always enough.
    """
    weights = np.subtract(values, peak)
    np.exp(weights, out=weights)
    total = float(weights.sum())
    need = top_p * total
    for parts in (*(guess for guess in _GUESSES if guess < len(values)), len(values)):
        able = np.flatnonzero(weights >= np.float32(total * (1.0 - top_p) / parts))
        if float(weights[able].sum()) >= need:
            break
    ordered = np.sort(values[able])[::-1]
    count = _crossing(np.exp(ordered - peak), need)
    return _best(values, ordered[count - 1], count)


def _crossing(weights: NDArray[np.float32], need: float) -> int:
    """How many of the first weights have mass >= need; all of them where rounding denies it.

    By parts first: a running sum over a flat vocabulary would cost more than sorting it.
    """
    starts = np.arange(0, len(weights), _PART)
    before = np.add.reduceat(weights, starts).cumsum(dtype=np.float64)
    part = int(np.searchsorted(before, need))
    if part == len(starts):
        return len(weights)
    inside = weights[starts[part] : starts[part] + _PART].cumsum(dtype=np.float64)
    missing = need - (float(before[part - 1]) if part else 0.0)
    return int(starts[part]) + min(int(np.searchsorted(inside, missing)) + 1, len(inside))

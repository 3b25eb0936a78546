"""Draw one token: argmax(score + Gumbel noise), which follows the softmax law of the scores.

    token = draw(process(row, history, params), Noise(seed=7), position=12)
    token = draw_from_law(law, noise, position=12, purpose=Purpose.DRAFT, round_start=10)

The noise belongs to the id and the position, so whoever draws at a position with nearly the
same law nearly always gets the same token (the coupling of Daliri, Musco and Suresh 2024).

Why not all logarithms: two logarithms per id over 49,152 ids cost more than all the rest of a
round. Exactly the same token comes out of integers: an id can beat the best score so far only if
its noise w is below 1 - exp(-exp(score - best)), and w is read from an integer.

Knows nothing of processors, history or drafts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilotfish.errors import BadLogits
from pilotfish.sampling.noise import Field, Noise, Purpose
from pilotfish.sampling.process import Scores

_BLOCK = 256  # ids that share one threshold: 192 blocks at a vocabulary of 49,152
_LEAST = -1e300  # a finite stand-in for "no bound at all", so that -inf minus it is -inf
_FEW = 1024  # below this, taking every logarithm is as fast


def draw(scores: Scores, noise: Noise, position: int) -> int:
    """The token at an absolute position; ties go to the lowest id."""
    if scores.greedy:
        index = scores.best
    else:
        index = _race(scores.values, scores.ids, noise.at(position=position), logarithmic=True)
    return index if scores.ids is None else int(scores.ids[index])


def draw_from_law(
    law: NDArray[np.float64],
    noise: Noise,
    *,
    position: int,
    purpose: int = Purpose.TARGET,
    round_start: int = 0,
) -> int:
    """A token from a dense law, [vocab], which need not sum to 1. Zero is never drawn.

    Raises BadLogits where no entry is positive.
    """
    field = noise.at(position=position, purpose=purpose, round_start=round_start)
    support = np.flatnonzero(law)
    if len(support) == 0:
        raise BadLogits("asked to draw from a law that is zero everywhere; check what was subtracted")
    if 2 * len(support) > len(law):
        return _race(law, None, field, logarithmic=False)
    return int(support[_race(law[support], support, field, logarithmic=False)])


def _race(
    values: NDArray[np.float32] | NDArray[np.float64],
    ids: NDArray[np.integer] | None,
    field: Field,
    *,
    logarithmic: bool,
) -> int:
    """The index of the winner. `values` are scores, or probabilities where not `logarithmic`."""
    if len(values) <= _FEW:
        everyone = np.arange(len(values)) if ids is None else ids
        return int(_noisy(values, everyone, field, logarithmic).argmax())
    high = field.high_all(len(values)) if ids is None else field.high(ids)
    blocks = len(values) // _BLOCK
    whole = blocks * _BLOCK
    peaks = values[:whole].reshape(blocks, _BLOCK).argmax(axis=1) + np.arange(0, whole, _BLOCK)
    tops = _scores(values[peaks], logarithmic)
    # At least this good is the best: the upper bits bound the noise of each block's best score.
    best = max(float((tops - np.log(field.weakest(high[peaks]))).max()), _LEAST)
    # w < 1 - exp(-exp(top - best)) implies high <= floor(2^32 * that); 1 more covers rounding.
    limits = np.expm1(-np.exp(tops - best)) * -(2.0**32) + 1.0
    thresholds = np.minimum(limits, 2.0**32 - 1).astype(np.uint32).repeat(_BLOCK)
    # The ids after the last whole block have no threshold: less than a block, all are looked at.
    able = np.concatenate([np.flatnonzero(high[:whole] <= thresholds), np.arange(whole, len(values))])
    noisy = _noisy(values[able], able if ids is None else ids[able], field, logarithmic)
    return int(able[noisy.argmax()])  # `able` ascends, so the first maximum is the lowest id


def _noisy(
    values: NDArray[np.float32] | NDArray[np.float64],
    ids: NDArray[np.integer],
    field: Field,
    logarithmic: bool,
) -> NDArray[np.float64]:
    """Score plus Gumbel noise, with all its logarithms."""
    return _scores(values, logarithmic) - np.log(field.exponentials(ids))


def _scores(values: NDArray[np.float32] | NDArray[np.float64], logarithmic: bool) -> NDArray[np.float64]:
    if logarithmic:
        return values.astype(np.float64)
    with np.errstate(divide="ignore"):  # the score of probability 0 is -inf, which never wins
        return np.log(values.astype(np.float64))

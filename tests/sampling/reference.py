"""Processors once more, one id at a time: slow and obviously right. And the naive draw.

Knows nothing of how the package does it; float32 only where the law of order says so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilotfish.sampling import Noise, SamplingParams, Scores


def adjusted(
    row: NDArray[np.float32],
    prompt: Sequence[int],
    output: Sequence[int],
    params: SamplingParams,
    eos_ids: frozenset[int],
    allowed: NDArray[np.bool_] | None = None,
) -> list[np.float32]:
    """Each logit after bias, bans, grammar and penalties, without temperature."""
    counts = Counter(output)
    result = []
    for token, logit in enumerate(row):
        value = np.float32(logit)
        if token in params.logit_bias:
            value = value + np.float32(params.logit_bias[token])
        if token in params.banned_ids:
            value = np.float32(-np.inf)
        if len(output) < params.min_tokens and (token in eos_ids or token in params.stop_ids):
            value = np.float32(-np.inf)
        if allowed is not None and not allowed[token]:
            value = np.float32(-np.inf)
        if token in prompt or token in output:
            penalty = np.float32(params.repetition_penalty)
            value = value / penalty if value > 0 else value * penalty
        if counts[token]:
            frequency = np.float32(counts[token]) * np.float32(params.frequency_penalty)
            value = value - (frequency + np.float32(params.presence_penalty))
        result.append(np.float32(value))
    return result


def survivors(values: Sequence[float], params: SamplingParams) -> tuple[list[int], float]:
    """The ids that min-p, top-k and top-p keep; and how near the nearest decision was."""
    order = sorted((t for t, v in enumerate(values) if v > -math.inf), key=lambda t: (-values[t], t))
    margin = math.inf
    if params.min_p > 0:
        level = values[order[0]] + math.log(params.min_p)
        if params.min_p < 1:
            margin = min(abs(values[t] - level) for t in order)
        order = [t for t in order if values[t] >= level]
    if params.top_k > 0:
        order = order[: params.top_k]
    if params.top_p < 1:
        weights = [math.exp(values[t] - values[order[0]]) for t in order]
        kept, mass = 0, 0.0
        while mass < params.top_p and kept < len(order):
            mass += weights[kept] / sum(weights)
            kept += 1
            if kept < len(order):
                margin = min(margin, abs(mass - params.top_p))
        order = order[:kept]
    return sorted(order), margin


def naive_draw(scores: Scores, noise: Noise, position: int) -> int:
    """The draw with every logarithm."""
    ids = np.arange(len(scores.values)) if scores.ids is None else scores.ids
    gumbel = -np.log(noise.exponentials(ids, position=position))
    return int(ids[(scores.values.astype(np.float64) + gumbel).argmax()])

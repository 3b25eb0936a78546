"""Two texts that should be the same: where they part, and whether arithmetic noise can explain it.

    at = first_difference(reference, output)
    is_tie(target, request, reference, at=at, found=output[at])

A tie: at the first difference the gap between both tokens' scores, keyed noise
included and times the temperature, is at most twice the noise that was measured in a logit; or one of
them sits on the edge of truncation: kept if its logit were that much higher, dropped if that much
lower. Knows nothing of proposers or cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pilotfish.engine.request import Request
from pilotfish.model.cache import KVCache
from pilotfish.model.load import Target
from pilotfish.model.runner import Slice
from pilotfish.sampling import Field, History, Noise, SamplingParams, process

_CHUNK = 32  # tokens of a pass that reads a text again


def first_difference(reference: Sequence[int], output: Sequence[int]) -> int | None:
    """The first place where they differ (one may end before the other), or None."""
    for place, (expected, found) in enumerate(zip(reference, output, strict=False)):
        if expected != found:
            return place
    return None if len(reference) == len(output) else min(len(reference), len(output))


def differing(reference: Sequence[int], output: Sequence[int]) -> int:
    """How many places differ; what only one of them has counts too."""
    pairs = zip(reference, output, strict=False)
    return sum(a != b for a, b in pairs) + abs(len(reference) - len(output))


def is_tie(target: Target, request: Request, reference: Sequence[int], *, at: int, found: int) -> bool:
    """True when noise explains that `found` came instead of `reference[at]`. Nothing may be running."""
    row = _row(target, [*request.prompt, *reference[:at]])
    history = History(request.prompt, target.runner.vocab)
    for token in reference[:at]:
        history.push(token)
    noise = Noise(request.seed, 0).at(position=len(request.prompt) + at)
    return explained(
        row, history, request.params, (reference[at], found), field=noise, noise=target.proof.noise
    )


def explained(
    row: np.ndarray,
    history: History,
    params: SamplingParams,
    tokens: tuple[int, int],
    *,
    field: Field,
    noise: float,
) -> bool:
    """The law of ties for two tokens after one row; `field` is the keyed noise of the position."""
    if score_gap(row, history, params, tokens, field=field) <= 2 * noise:
        return True
    return any(on_edge(row, history, params, token, shift=2 * noise) for token in tokens)


def score_gap(
    row: np.ndarray, history: History, params: SamplingParams, tokens: tuple[int, int], *, field: Field
) -> float:
    """The distance of two tokens' scores plus noise, in logits: times the temperature where there is one."""
    scores = process(row, history, replace(params, top_k=0, top_p=1.0, min_p=0.0))
    first, second = (float(scores.values[token]) for token in tokens)
    if scores.greedy:
        return abs(first - second)
    a, b = -np.log(field.exponentials(np.array(tokens)))
    return float(abs(first + a - second - b)) * params.temperature


def on_edge(row: np.ndarray, history: History, params: SamplingParams, token: int, *, shift: float) -> bool:
    """True when truncation keeps the token with a logit higher by `shift` and drops it with a lower one."""
    return _kept(row, history, params, token, shift) and not _kept(row, history, params, token, -shift)


def _kept(row: np.ndarray, history: History, params: SamplingParams, token: int, shift: float) -> bool:
    shifted = row.copy()
    shifted[token] += shift
    scores = process(shifted, history, params)
    return scores.ids is None or bool(np.isin(token, scores.ids))


def _row(target: Target, tokens: Sequence[int]) -> np.ndarray:
    """The logits after a text, read afresh."""
    cache = KVCache(target.pool)
    blocks = cache.reserve(0, len(tokens))
    try:
        for start in range(0, len(tokens), _CHUNK):
            piece = list(tokens[start : start + _CHUNK])
            output = target.runner.forward([Slice(piece, start, blocks, range(len(piece) - 1, len(piece)))])
        return np.array(output.logits[0][0])
    finally:
        cache.release(0)

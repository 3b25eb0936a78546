"""Processors: a row of logits, made into the scores that a token is drawn from.

The order is a law: logit bias, banned ids (and the end, while min_tokens wants more), grammar,
repetition penalty (prompt + output), presence and frequency penalties (output), temperature,
min-p, top-k, top-p. Each truncation sees only what the one before it kept, renormalised.

    scores = process(row, history, params, eos_ids=frozenset({2}))
    law(scores, vocab=len(row))                   # the probability law, dense
    logprobs(row, token=5, top_n=3)               # what OpenAI calls logprobs

`row` is never written to: it is a view into the runtime's memory. Where nothing has to change,
the scores *are* that view, so draw from them before the next forward pass.

Knows nothing of noise, seeds, drafts, tokenizers or runtimes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotfish.errors import BadLogits, BadRequest
from pilotfish.sampling.history import History
from pilotfish.sampling.params import SamplingParams
from pilotfish.sampling.truncate import truncate

_COLD = 1e-3  # below this temperature, subtract the peak first: dividing could overflow
_COLDEST, _HOTTEST = 1e-30, 1e30  # temperatures that float32 can divide by


@dataclass(frozen=True, eq=False)
class Scores:
    """Logits after all processors, temperature included.

    ids     [kept] int32, ascending: the ids that survived; None: the whole vocabulary
    values  [kept or vocab] float32
    greedy  the law is one-hot at the maximum (no temperature, no truncation was applied)
    best    index into `values` of their maximum, the lowest one among equals
    """

    ids: NDArray[np.int32] | None
    values: NDArray[np.float32]
    greedy: bool
    best: int


@dataclass(frozen=True, eq=False)
class TokenLogprobs:
    """The natural log-probability of a token, and the best ids there, best first."""

    token: int
    logprob: float
    top_ids: NDArray[np.int64]  # [top_n], or fewer where fewer survived
    top_logprobs: NDArray[np.float64]


def process(
    row: NDArray[np.float32],  # [vocab]
    history: History,
    params: SamplingParams,
    eos_ids: frozenset[int] = frozenset(),
    *,
    allowed: NDArray[np.bool_] | None = None,
) -> Scores:
    """The scores of the next token after `history`; `allowed` [vocab] is a grammar's mask.

    The ids in `params` must exist: call `params.check_vocab` once per request. Raises BadLogits
    where the row holds NaN or +inf, or where nothing finite is left.
    """
    best = _peak(row, "the runtime's row of logits")
    work = _adjust(row, history, params, eos_ids, allowed)
    if work is not row:
        best = _peak(work, "the row after bans, biases and penalties")
    if params.temperature == 0.0:
        return Scores(ids=None, values=work, greedy=True, best=best)
    work = _cool(work, best, params.temperature)
    ids = truncate(work, best, min_p=params.min_p, top_k=params.top_k, top_p=params.top_p)
    if ids is None:
        return Scores(ids=None, values=work, greedy=False, best=best)
    kept = ids.astype(np.int32)
    return Scores(ids=kept, values=work[ids], greedy=False, best=int(np.searchsorted(ids, best)))


def law(scores: Scores, vocab: int) -> NDArray[np.float64]:
    """The probability of every id, [vocab]; exactly 0 for those that did not survive."""
    dense = np.zeros(vocab, np.float64)
    places = slice(None) if scores.ids is None else scores.ids
    if scores.greedy:
        dense[scores.best if scores.ids is None else scores.ids[scores.best]] = 1.0
        return dense
    weights = np.exp(scores.values.astype(np.float64) - float(scores.values[scores.best]))
    dense[places] = weights / weights.sum()
    return dense


def logprobs(source: NDArray[np.float32] | Scores, token: int, top_n: int) -> TokenLogprobs:
    """The log-softmax of `source` at a token, and its `top_n` best; ties go to the lowest id.

    A raw row gives raw logprobs, Scores the processed ones (-inf for what did not survive; at
    temperature 0, the softmax of the processed logits).
    """
    values = source.values if isinstance(source, Scores) else source
    ids = source.ids if isinstance(source, Scores) else None
    peak = values[_peak(values, "the row to report logprobs of")]
    wide = values.astype(np.float64) - float(peak)
    wide -= math.log(np.exp(wide).sum())
    if ids is None:
        logprob = float(wide[token])
    else:
        place = int(np.searchsorted(ids, token))
        logprob = float(wide[place]) if place < len(ids) and ids[place] == token else -math.inf
    top = _best_first(values, min(top_n, len(values)))
    top_ids = top if ids is None else ids[top].astype(np.int64)
    return TokenLogprobs(token=token, logprob=logprob, top_ids=top_ids, top_logprobs=wide[top])


def _best_first(values: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Indices of the `count` best values, best first, the lowest index first among equals."""
    if count == 0:
        return np.empty(0, np.int64)
    level = np.partition(values, len(values) - count)[len(values) - count]
    able = np.flatnonzero(values >= level)
    return able[np.argsort(-values[able], kind="stable")[:count]]


def _peak(row: NDArray[np.float32], what: str) -> int:
    """The index of the maximum. numpy's argmax stops at a NaN, so this one number tells all."""
    best = int(row.argmax())
    value = float(row[best])
    if not math.isfinite(value):
        found = "no finite number at all" if value == -math.inf else f"{value} at id {best}"
        raise BadLogits(
            f"{what} must have a finite maximum, found {found}; check the model's weights and precision, "
            "and whether banned ids, logit bias and grammar leave any token"
        )
    return best


def _adjust(
    row: NDArray[np.float32],
    history: History,
    params: SamplingParams,
    eos_ids: frozenset[int],
    allowed: NDArray[np.bool_] | None,
) -> NDArray[np.float32]:
    """Everything before temperature, on a copy; `row` itself where there is nothing to do."""
    wants_more = history.output_length < params.min_tokens
    ends = eos_ids | params.stop_ids if wants_more else frozenset()
    if not (params.logit_bias or params.banned_ids or ends or params.penalises or allowed is not None):
        return row
    if len(row) != history.vocab:
        raise BadRequest(f"a row of {len(row)} logits does not fit a history of vocabulary {history.vocab}")
    work = row.copy()
    if params.logit_bias:
        ids, values = params.bias_arrays
        work[ids] += values
    if params.banned_ids:
        work[params.banned_array] = -np.inf
    if ends:
        # Some models name end-of-text ids that their output has no row for: those cannot be drawn.
        work[[token for token in ends if token < len(work)]] = -np.inf
    if allowed is not None:
        np.copyto(work, -np.inf, where=~allowed)
    if params.penalises:
        _penalise(work, history, params)
    return work


def _penalise(work: NDArray[np.float32], history: History, params: SamplingParams) -> None:
    """Repetition (Keskar et al. 2019, eq. in section 4.1), then presence and frequency, in place."""
    if params.repetition_penalty != 1.0:
        penalty = np.float32(params.repetition_penalty)
        ids = history.seen_ids
        values = work[ids]
        work[ids] = np.where(values > 0, values / penalty, values * penalty)
    if params.presence_penalty != 0.0 or params.frequency_penalty != 0.0:
        counts = history.output_counts.astype(np.float32)
        penalties = counts * np.float32(params.frequency_penalty) + np.float32(params.presence_penalty)
        work[history.output_ids] -= penalties


def _cool(work: NDArray[np.float32], best: int, temperature: float) -> NDArray[np.float32]:
    """The row divided by the temperature, in new memory; itself at temperature 1."""
    if temperature == 1.0:
        return work
    if temperature < _COLD:
        with np.errstate(over="ignore"):  # -inf is right for what is that far below the peak
            shifted: NDArray[np.float32] = work - work[best]
            return shifted / np.float32(max(temperature, _COLDEST))
    return work / np.float32(min(temperature, _HOTTEST))

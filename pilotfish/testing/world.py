"""A world: decoding round by round with real keyed noise, where an engine would need a runtime.

    run_world(target, proposer, params, kind="rejection", prompt=[0]).tokens

Knows stop ids, end-of-text ids and the token limit. Knows nothing of text, caches and batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pilotfish.draft import ROOT, Draft, Verdict
from pilotfish.propose import Observation, Proposer
from pilotfish.sampling import History, Noise, SamplingParams, Scores, process
from pilotfish.testing.markov import MarkovTarget
from pilotfish.verify import Chance, Row, verify


class WorldContinuation:
    """A Continuation, and the Context of proposers, for one request without text."""

    id = 0

    def __init__(
        self,
        prompt: Sequence[int],
        *,
        vocab: int,
        params: SamplingParams,
        eos_ids: Iterable[int] = (),
        noise: Noise | None = None,
    ) -> None:
        self.tokens = list(prompt)
        self.prompt_length = len(self.tokens)
        self.vocab = vocab
        self.params = params
        # with ignore_eos the end of text is a token like any other, before min_tokens too
        self.eos_ids = frozenset(() if params.ignore_eos else eos_ids)
        self.noise = noise or Noise(params.seed or 0, 0)
        self.finish_reason: str | None = None
        self.history = History(self.tokens, vocab)

    @property
    def position(self) -> int:
        return len(self.tokens)

    @property
    def output(self) -> list[int]:
        return self.tokens[self.prompt_length :]

    def scores(self, row: Row) -> Scores:
        return process(row, self.history, self.params, self.eos_ids)

    def push(self, token: int) -> None:
        self.history.push(token)

    def pop(self) -> None:
        self.history.pop()

    def append(self, token: int, row: Row) -> bool:
        """The earlier boundary decides: a stop id at the last allowed position is a stop."""
        assert self.finish_reason is None, f"token {token} after the request had finished"
        self.history.push(token)
        self.tokens.append(token)
        if token in self.eos_ids | self.params.stop_ids:
            self.finish_reason = "stop"
        elif len(self.tokens) - self.prompt_length >= self.params.max_tokens:
            self.finish_reason = "length"
        return self.finish_reason is not None


@dataclass(frozen=True)
class Round:
    """What was drafted (after the cut to vocabulary, budget and depth) and what became of it."""

    draft: Draft
    verdict: Verdict


@dataclass(frozen=True)
class Decoded:
    """A finished request."""

    tokens: list[int]
    rounds: list[Round]
    finish_reason: str

    @property
    def accepted(self) -> list[int]:
        """Accepted draft tokens of each round."""
        return [len(round_.verdict.path) for round_ in self.rounds]

    @property
    def corrected(self) -> list[bool]:
        """For each round: was its last token none of the drafted ones?"""
        return [round_.verdict.corrected(round_.draft) for round_ in self.rounds]


def run_world(
    target: MarkovTarget,
    proposer: Proposer,
    params: SamplingParams,
    *,
    kind: str,
    prompt: Sequence[int],
    eos_ids: Iterable[int] = (),
    budget: int = 7,
    continuation: WorldContinuation | None = None,
) -> Decoded:
    """Decode one request to its end; `continuation` replaces the default one where a test records."""
    sequence = continuation or WorldContinuation(prompt, vocab=target.vocab, params=params, eos_ids=eos_ids)
    rounds: list[Round] = []
    while sequence.finish_reason is None:
        remaining = params.max_tokens - len(sequence.output)
        [proposed] = proposer.propose([sequence], budget)
        # the last allowed token is the round's own, so no accepted node is as deep as `remaining`
        affordable = proposed.keep(range(min(budget, len(proposed))))
        draft = affordable.within(vocab=target.vocab, depth=remaining - 1)
        rounds.append(run_round(target, draft, sequence, kind=kind))
        if proposer.top_k:
            proposer.observe([observation(target, sequence, rounds[-1], proposer.top_k)])
    proposer.forget(sequence)
    return Decoded(sequence.output, rounds, sequence.finish_reason)


def run_round(
    target: MarkovTarget,
    draft: Draft,
    sequence: WorldContinuation,
    *,
    kind: str,
    chance: Chance | None = None,
) -> Round:
    """Verify one draft and extend the sequence."""
    rows = rows_after(target, tuple(sequence.tokens), draft)
    return Round(draft, verify(kind, draft, rows, sequence, chance=chance))


def rows_after(target: MarkovTarget, tokens: tuple[int, ...], draft: Draft) -> Callable[[int], Row]:
    """The target's row after ROOT and after every node, as of these committed tokens."""

    def row(node: int) -> Row:
        return target.row([*tokens, *(draft.tokens[step] for step in draft.path(node))])

    return row


def observation(target: MarkovTarget, sequence: WorldContinuation, done: Round, top_k: int) -> Observation:
    """The round as proposers are told of it."""
    before = tuple(sequence.tokens[: len(sequence.tokens) - len(done.verdict.path) - 1])
    rows = rows_after(target, before, done.draft)
    best = [np.argsort(-rows(node), kind="stable")[:top_k] for node in range(ROOT, len(done.draft))]
    read = np.array([before[-1], *done.draft.tokens])
    return Observation(sequence, done.draft, done.verdict, read_tokens=read, top_ids=np.array(best))

"""Failure cases of other engines (reference/engines.md, section 5), designed out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pilotfish.draft import ROOT, Draft
from pilotfish.errors import BadDraft
from pilotfish.sampling import Noise, SamplingParams, Scores, process
from pilotfish.testing import (
    Contrarian,
    ForkedChance,
    MarkovTarget,
    Nothing,
    Oracle,
    PlainLaw,
    Sampled,
    WorldContinuation,
    outcomes,
    round_law,
    run_round,
    run_world,
)
from pilotfish.testing.exact import Fork
from pilotfish.testing.proposers import Scripted
from pilotfish.verify import Row, verify

KINDS = ["coupled", "rejection", "block"]


class Stubborn(Scripted):
    """Proposes one token for ever."""

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        return Draft.chain([self.plain[0]] * budget, source="stubborn")  # type: ignore[index]


class Recording(WorldContinuation):
    """Keeps every processed row with the history, supposed tokens included, it was processed with."""

    def __init__(self, prompt: list[int], *, params: SamplingParams, eos_ids: set[int]) -> None:
        super().__init__(prompt, vocab=5, params=params, eos_ids=eos_ids)
        self.supposed: list[int] = []
        self.seen: dict[tuple[int, ...], Scores] = {}

    def push(self, token: int) -> None:
        super().push(token)
        self.supposed.append(token)

    def pop(self) -> None:
        super().pop()
        self.supposed.pop()

    def scores(self, row: Row) -> Scores:
        scores = super().scores(row)
        self.seen[(*self.output, *self.supposed)] = scores
        return scores


@pytest.mark.parametrize("kind", ["rejection", "block"])
def test_f3_the_law_returned_is_the_law_drawn_from(kind: str) -> None:
    """The honest proposer is exact under truncation; one that reports the raw law is not."""
    target, table = MarkovTarget.fixed([0.4, 0.3, 0.2, 0.1]), MarkovTarget.fixed([0.1, 0.2, 0.3, 0.4])
    plain = PlainLaw(target, SamplingParams(max_tokens=9, temperature=1.0), prompt=[0])
    cut = SamplingParams(max_tokens=9, temperature=1.0, top_k=2)

    def first_token(honest: bool) -> np.ndarray:
        def one_round(fork: Fork) -> int:
            sequence = plain.continuation()
            proposer = Sampled(table, cut, Noise(0, 0), widths=(1,))
            draft = proposer.grow(sequence, 1, lambda law, position: fork.choose(law))
            if not honest:
                draft = Draft.chain(draft.tokens, source="liar", laws=[table.law([0])])
            run_round(target, draft, sequence, kind=kind, chance=ForkedChance(fork, 4))
            return sequence.output[0]

        law = np.zeros(4)
        for token, probability in outcomes(one_round):
            law[token] += probability
        return law

    assert np.abs(first_token(True) - target.law([0])).max() < 1e-12
    assert np.abs(first_token(False) - target.law([0])).max() > 0.05


@pytest.mark.parametrize("kind", ["rejection", "block"])
def test_f3_a_law_that_could_not_have_drawn_its_token_is_refused(kind: str) -> None:
    draft = Draft.chain([3], source="liar", laws=[np.array([0.5, 0.5, 0.0, 0.0])])
    sequence = WorldContinuation([0], vocab=4, params=SamplingParams(temperature=1.0))
    with pytest.raises(BadDraft, match="keep the law it really drew from"):
        verify(kind, draft, np.zeros((2, 4), np.float32), sequence)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("soft", [True, False])
def test_f4_greedy_is_one_hot_on_both_sides(kind: str, soft: bool) -> None:
    """The draft's best token is 0, drawn or not from a soft law; the target's best is 1."""
    target = MarkovTarget.fixed([0.3, 0.5, 0.2])
    laws = [np.array([0.9, 0.05, 0.05])] * 2 if soft else None
    for token in range(3):
        for seed in range(20):
            sequence = WorldContinuation([0], vocab=3, params=SamplingParams(max_tokens=9, seed=seed))
            draft = Draft.chain([token, 0], source="test", laws=laws)
            verdict = run_round(target, draft, sequence, kind=kind).verdict
            assert set(sequence.output) == {1}
            assert len(verdict.path) == (token == 1)


@pytest.mark.parametrize("kind", ["coupled", "rejection"])
@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_f5_a_tree_of_the_best_tokens_is_exact(kind: str, width: int) -> None:
    """Fixed children are point masses: the second token comes as often as the target says."""
    target = MarkovTarget.fixed([0.46, 0.44, 0.06, 0.04])
    plain = PlainLaw(target, SamplingParams(max_tokens=9, temperature=1.0), prompt=[0])
    tokens = (*range(width), *range(width))
    count = len(tokens)
    parents = (*(ROOT,) * width, *(0,) * width)
    draft = Draft(tokens, parents, ("top",) * count, (0,) * count, (1.0,) * count)

    def one_round(fork: Fork) -> tuple[int, ...]:
        sequence = plain.continuation()
        run_round(target, draft, sequence, kind=kind, chance=ForkedChance(fork, 4))
        return tuple(sequence.output)

    written: dict[tuple[int, ...], float] = {}
    for output, probability in outcomes(one_round):
        written[output] = written.get(output, 0.0) + probability
    expected = plain.outputs(3)
    assert max(abs(plain.complete(written, 3)[output] - expected[output]) for output in expected) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_f6_temperature_is_obeyed(kind: str) -> None:
    target, table = MarkovTarget.random(seed=2, vocab=3), MarkovTarget.random(seed=3, vocab=3)
    for temperature in (0.3, 1.0, 2.0):
        params = SamplingParams(max_tokens=9, temperature=temperature)
        plain = PlainLaw(target, params, prompt=[1])
        written = plain.complete(round_law(plain, table, (1, 1), kind), 1)
        expected = target.law([1], temperature=temperature)  # by softmax, without the processors
        assert max(abs(written[(token,)] - expected[token]) for token in range(3)) < 1e-6
    assert np.abs(target.law([1], temperature=0.3) - target.law([1], temperature=2.0)).max() > 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_f7_a_wrong_first_token_is_never_committed(kind: str) -> None:
    target = MarkovTarget.random(seed=4, vocab=5, order=2)
    params = SamplingParams(max_tokens=20)
    plain = run_world(target, Nothing(), params, kind=kind, prompt=[0]).tokens
    done = run_world(target, Contrarian(plain, vocab=5), params, kind=kind, prompt=[0], budget=1)
    assert done.tokens == plain
    assert done.accepted == [0] * 20 and done.corrected == [True] * 19 + [False]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("ban", [{"banned_ids": {2}}, {"logit_bias": {2: -100.0}}, {"min_p": 0.5}])
def test_f8_a_banned_token_never_appears(kind: str, temperature: float, ban: dict[str, Any]) -> None:
    best, second = (0.1, 0.6) if "min_p" in ban else (0.6, 0.1)
    target = MarkovTarget.fixed([0.3, second, best])  # token 2 would win, or is cut by min_p
    for seed in range(10):
        params = SamplingParams(max_tokens=16, temperature=temperature, seed=seed, **ban)
        done = run_world(target, Stubborn([2]), params, kind=kind, prompt=[0], budget=4)
        assert 2 not in done.tokens and done.accepted == [0] * 16


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_f8_f9_scores_inside_a_block_are_those_of_one_token_decoding(kind: str, temperature: float) -> None:
    """Bias, penalties and min_tokens at every position of long blocks, bit by bit."""
    target = MarkovTarget.random(seed=8, vocab=5, order=2)
    params = SamplingParams(
        max_tokens=18,
        min_tokens=7,
        temperature=temperature,
        repetition_penalty=1.3,
        presence_penalty=0.4,
        frequency_penalty=0.3,
        logit_bias={1: 0.7},
        seed=2,
    )
    prompt, eos_ids = [3, 1], frozenset({0})
    plain = run_world(target, Nothing(), params, kind="coupled", prompt=prompt, eos_ids=eos_ids)
    sequence = Recording(prompt, params=params, eos_ids={0})
    done = run_world(
        target, Oracle(plain.tokens), params, kind=kind, prompt=prompt, budget=5, continuation=sequence
    )
    if temperature == 0.0 or kind != "block":
        assert done.tokens == plain.tokens and max(done.accepted) == 5
    assert len(sequence.seen) >= len(done.tokens)
    for output, scores in sequence.seen.items():
        alone = PlainLaw(target, params, prompt=prompt).continuation()
        for token in output:
            alone.history.push(token)
        expected = process(target.row([*prompt, *output]), alone.history, params, eos_ids)
        assert scores.values.tobytes() == expected.values.tobytes()
        assert scores.greedy == expected.greedy and scores.best == expected.best
        assert np.isneginf(scores.values[0]) == (len(output) < 7)


def test_f10_the_seed_decides_and_the_drafter_does_not() -> None:
    target = MarkovTarget.random(seed=5, vocab=5)

    def tokens(kind: str, seed: int, table: int) -> list[int]:
        params = SamplingParams(max_tokens=30, temperature=1.0, seed=seed)
        proposer = Sampled(MarkovTarget.random(seed=table), params, Noise(seed, 0), widths=(1, 1, 1))
        return run_world(target, proposer, params, kind=kind, prompt=[0]).tokens

    for kind in KINDS:
        assert tokens(kind, 1, 6) == tokens(kind, 1, 6)
        assert tokens(kind, 1, 6) != tokens(kind, 2, 6)
    assert tokens("coupled", 1, 6) == tokens("coupled", 1, 7)
    assert tokens("rejection", 1, 6) != tokens("rejection", 1, 7)  # the same law, not the same text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("stop_at", "reason", "count"), [(3, "stop", 3), (5, "stop", 5), (6, "length", 5)])
def test_f11_the_earlier_boundary_decides(kind: str, stop_at: int, reason: str, count: int) -> None:
    """A counting target writes 1, 2, 3, ...; the whole block is drafted, and max_tokens is 5."""
    target = MarkovTarget.from_laws(np.roll(np.eye(9), 1, axis=1), order=1)
    params = SamplingParams(max_tokens=5, stop_ids=frozenset({stop_at}))
    sequence = WorldContinuation([0], vocab=9, params=params)
    draft = Draft.chain(range(1, 8), source="oracle")
    verdict = run_round(target, draft, sequence, kind=kind).verdict
    assert sequence.output == list(range(1, count + 1)) and sequence.finish_reason == reason
    assert verdict.path == tuple(range(count - 1)) and verdict.token == count


@pytest.mark.parametrize("kind", KINDS)
def test_f13_nothing_follows_the_end_of_text(kind: str) -> None:
    target = MarkovTarget.random(seed=13, vocab=6, order=3)
    params = SamplingParams(max_tokens=20)
    plain = run_world(target, Nothing(), params, kind=kind, prompt=[0]).tokens
    for end in set(plain):
        cut = plain[: plain.index(end) + 1]
        for eos_ids, stop_ids in (({end}, set()), (set(), {end})):
            ending = SamplingParams(max_tokens=20, stop_ids=frozenset(stop_ids))
            done = run_world(target, Oracle(plain), ending, kind=kind, prompt=[0], eos_ids=eos_ids, budget=6)
            assert done.tokens == cut and done.finish_reason == "stop"
            assert len(done.tokens) == sum(done.accepted) + len(done.rounds)
        deaf = SamplingParams(max_tokens=20, ignore_eos=True)
        assert run_world(target, Oracle(plain), deaf, kind=kind, prompt=[0], eos_ids={end}).tokens == plain


class Strict(WorldContinuation):
    """Follows, like a grammar's matcher, only tokens that it allows: never the banned ones."""

    def push(self, token: int) -> None:
        assert token not in self.params.banned_ids, f"a matcher cannot follow {token}"
        super().push(token)

    def append(self, token: int, row: Row) -> bool:
        assert token not in self.params.banned_ids
        return super().append(token, row)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("illegal_at", range(4))
def test_f16_an_illegal_draft_token_is_never_followed(kind: str, temperature: float, illegal_at: int) -> None:
    target = MarkovTarget.random(seed=16, vocab=5)
    law = np.full(5, 0.2)
    for seed in range(20):
        params = SamplingParams(max_tokens=9, temperature=temperature, seed=seed, banned_ids=frozenset({2}))
        legal = run_world(target, Nothing(), params, kind="coupled", prompt=[0]).tokens[:4]
        tokens = [*legal[:illegal_at], 2, *legal[illegal_at:]]
        for laws in (None, [law] * 5):
            sequence = Strict([0], vocab=5, params=params)
            draft = Draft.chain(tokens, source="test", laws=laws)
            verdict = run_round(target, draft, sequence, kind=kind).verdict
            assert len(verdict.path) <= illegal_at
            assert sequence.history.output_length == len(sequence.output) == len(verdict.path) + 1

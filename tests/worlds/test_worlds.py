"""The worlds themselves: their proposers do what they are told, their laws are laws."""

from __future__ import annotations

import numpy as np
import pytest

from pilotfish.draft import ROOT
from pilotfish.sampling import Noise, SamplingParams
from pilotfish.testing import (
    Coin,
    Contrarian,
    MarkovTarget,
    Nothing,
    Oracle,
    OutOfVocabulary,
    Overlong,
    PlainLaw,
    Sampled,
    WorldContinuation,
    chi_square_deviation,
    outcomes,
    run_world,
)

TARGET = MarkovTarget.random(seed=1, vocab=5, order=2)
SETTINGS = [
    SamplingParams(max_tokens=17, seed=3),
    SamplingParams(max_tokens=17, seed=3, temperature=1.0, frequency_penalty=0.3),
]


def plain_output(params: SamplingParams) -> list[int]:
    return run_world(TARGET, Nothing(), params, kind="coupled", prompt=[0, 1]).tokens


@pytest.mark.parametrize("params", SETTINGS)
def test_patterns_of_the_scripted_proposers(params: SamplingParams) -> None:
    plain = plain_output(params)

    def run(proposer: object, budget: int) -> tuple[list[int], list[bool]]:
        done = run_world(TARGET, proposer, params, kind="coupled", prompt=[0, 1], budget=budget)  # type: ignore[arg-type]
        assert done.tokens == plain and done.finish_reason == "length"
        assert len(done.tokens) == sum(done.accepted) + len(done.rounds)
        return done.accepted, done.corrected

    assert run(Nothing(), 3) == ([0] * 17, [False] * 17)
    assert run(Oracle(plain), 3) == ([3, 3, 3, 3, 0], [False] * 5)
    assert run(Overlong(plain, excess=4), 3) == ([3, 3, 3, 3, 0], [False] * 5)
    # the last round may write one token, so nothing is left of its draft
    assert run(Contrarian(plain, vocab=5), 3) == ([0] * 17, [True] * 16 + [False])
    assert run(OutOfVocabulary(plain, vocab=5), 9) == ([3, 3, 3, 3, 0], [False] * 5)
    accepted, corrected = run(Coin(plain, vocab=5, rate=0.6), 3)
    assert {0, 3} < set(accepted) and corrected.count(True) == sum(count < 3 for count in accepted[:-1])


def test_an_oracle_for_many_sequences_is_given_a_function() -> None:
    sequence = WorldContinuation([0, 1], vocab=5, params=SETTINGS[0])
    [draft] = Oracle(lambda context: [context.id, 4]).propose([sequence], 3)
    assert draft.tokens == (0, 4)


def test_sampled_draws_a_tree_of_its_own_processed_law() -> None:
    params = SamplingParams(max_tokens=9, seed=1, temperature=1.0, top_k=2)
    table = MarkovTarget.random(seed=9, vocab=5)
    sequence = WorldContinuation([0], vocab=5, params=params)
    [draft] = Sampled(table, params, Noise(1, 0), widths=(3, 1)).propose([sequence], 9)
    assert draft.parents == (ROOT, ROOT, 0, 1)  # top_k leaves two of the three
    assert draft.law(0) is draft.law(1)
    best_two = np.argsort(-table.row([0]))[:2].tolist()
    assert sorted(draft.tokens[:2]) == sorted(best_two)
    for node in range(4):
        law = draft.law(node)
        assert law is not None and np.count_nonzero(law) == 2
    [cut] = Sampled(table, params, Noise(1, 0), widths=(3, 1)).propose([sequence], 3)
    assert cut.tokens == draft.tokens[:3]


def test_tables() -> None:
    zeros = MarkovTarget.random(seed=4, vocab=6, order=2, zeros=0.7)
    assert np.isneginf(zeros.logits).mean() > 0.5
    assert np.isfinite(zeros.logits.max(axis=1)).all()
    assert zeros.law([1, 2]).sum() == pytest.approx(1.0)
    assert zeros.row([5, 1, 2]) is not None and (zeros.row([5, 1, 2]) == zeros.row([1, 2])).all()
    assert (zeros.row([]) == zeros.row([0, 0])).all()
    ties = np.sort(MarkovTarget.random(seed=4, vocab=6, ties=True).logits, axis=1)
    assert (ties[:, -1] == ties[:, -2]).all()
    with pytest.raises(ValueError, match="25 rows"):
        MarkovTarget(np.zeros((5, 5), np.float32), order=2)


def test_plain_law_is_the_product_of_the_rows() -> None:
    target = MarkovTarget.random(seed=6, vocab=3)
    plain = PlainLaw(target, SamplingParams(max_tokens=2, temperature=1.0), prompt=[2])
    law_of = plain.outputs(5)  # the request ends after 2
    assert law_of[(1, 0)] == pytest.approx(target.law([2])[1] * target.law([1])[0], abs=1e-7)
    assert sum(law_of.values()) == pytest.approx(1.0)


def test_outcomes_go_through_everything_once() -> None:
    walked = list(outcomes(lambda fork: (fork.choose([0.5, 0.0, 0.5]), fork.choose([0.25, 0.75]))))
    assert walked == [((0, 0), 0.125), ((0, 1), 0.375), ((2, 0), 0.125), ((2, 1), 0.375)]


def test_chi_square_deviation() -> None:
    fair: dict[tuple[int, ...], float] = {(0,): 0.5, (1,): 0.5}
    assert chi_square_deviation({(0,): 500, (1,): 500}, fair) < 0
    assert chi_square_deviation({(0,): 600, (1,): 400}, fair) > 5
    assert chi_square_deviation({(0,): 500, (2,): 500}, fair) == float("inf")
    # 3.29 deviations of a normal have probability 0.001 on two sides: 10.83 is that chi-square
    assert chi_square_deviation({(0,): 552, (1,): 448}, fair) == pytest.approx(3.1, abs=0.15)

"""Rejection and block verification through the engine: the law is plain decoding's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from pilotfish.draft import Draft
from pilotfish.engine.request import Request
from pilotfish.engine.sequence import Sequence as Running
from pilotfish.model.steptimes import StepTimes
from pilotfish.plan.planner import Planner
from pilotfish.propose import Context, Observation, Proposer
from pilotfish.sampling import Noise, SamplingParams
from pilotfish.testing import (
    Coin,
    MarkovTarget,
    Nothing,
    Oracle,
    PlainLaw,
    Sampled,
    WorldRunner,
    chi_square_deviation,
)
from tests.engine.engine_worlds import WIDE, ask, make_engine, plain, run, run_one, script

VOCAB = 4
TARGET = MarkovTarget.random(seed=21, vocab=VOCAB, order=1)
TABLE = MarkovTarget.random(seed=22, vocab=VOCAB, order=1)
PARAMS: dict[str, Any] = {"max_tokens": 3, "temperature": 1.0, "presence_penalty": 0.5, "ignore_eos": True}
REQUESTS = 1200


class Many:
    """One Sampled a sequence, since its noise is its request's."""

    name, top_k, calibrated = "sampled", 0, False

    def __init__(self) -> None:
        self.each: dict[int, Sampled] = {}

    def propose(self, sequences: Sequence[Running], budget: int) -> list[Draft]:
        return [self.one(sequence).propose([sequence], budget)[0] for sequence in sequences]

    def one(self, sequence: Running) -> Sampled:
        if sequence.id not in self.each:
            params, noise = sequence.request.params, Noise(sequence.request.seed, sequence.choice)
            self.each[sequence.id] = Sampled(TABLE, params, noise, widths=(1, 1, 1))
        return self.each[sequence.id]

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def forget(self, sequence: Context) -> None:
        self.each.pop(sequence.id, None)


def deviation(verification: str, proposer: Proposer, planner: Planner | None) -> tuple[float, float]:
    """How far the first two tokens are from the exact law, in deviations; and the acceptance rate."""
    runner = WorldRunner(TARGET, blocks=64)
    engine = make_engine(proposer, runner=runner, form=WIDE, verification=verification, planner=planner)
    requests = [
        Request(prompt=(2, 0), params=SamplingParams(**PARAMS), seed=seed) for seed in range(REQUESTS)
    ]
    counts = Counter(tuple(outcome.tokens[:2]) for [outcome] in run(engine, requests))
    law = PlainLaw(TARGET, SamplingParams(**PARAMS), prompt=[2, 0])
    return chi_square_deviation(counts, law.outputs(2)), engine.stats.acceptance_rate


@pytest.mark.parametrize("verification", ["coupled", "rejection", "block"])
def test_the_law_of_the_first_two_tokens(verification: str) -> None:
    off, rate = deviation(verification, Many(), None)
    assert off < 3.1 and 0.2 < rate < 0.95
    # Priced, too: a planner may not cut sampled nodes by their tokens.
    steps = StepTimes({1: 1.0, 2: 1.5, 4: 4.0})
    assert deviation(verification, Many(), Planner(steps))[0] < 3.1


def test_the_law_of_plain_decoding() -> None:
    assert deviation("coupled", Nothing(), None)[0] < 3.1


@pytest.mark.parametrize("verification", ["rejection", "block"])
def test_greedy_is_the_same_under_every_rule(verification: str) -> None:
    request = ask([1, 2, 0], max_tokens=20, ignore_eos=True, frequency_penalty=0.3)
    for proposer in (Oracle(script([request])), Coin(script([request]), vocab=8, rate=0.6)):
        outcome = run_one(make_engine(proposer, verification=verification), request)
        assert outcome.what == plain(request)[0].what


def test_point_masses_under_rejection_give_the_plain_text() -> None:
    request = ask([1, 2, 0], max_tokens=20, temperature=1.0)
    proposer = Coin(script([request]), vocab=8, rate=0.6)
    assert run_one(make_engine(proposer, verification="rejection"), request).what == plain(request)[0].what

"""Any interleaving of add, step and abort: each finished request equals its run alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from pilotfish.draft import Draft
from pilotfish.engine.request import Request
from pilotfish.model.runner import Form
from pilotfish.model.steptimes import StepTimes
from pilotfish.plan.planner import Planner
from pilotfish.propose import Nothing
from pilotfish.propose.spec import build
from pilotfish.testing.proposers import Scripted
from tests.engine.engine_worlds import (
    VOCAB,
    Outcome,
    Outcomes,
    ask,
    finish,
    make_engine,
    make_runner,
    plain,
    take,
)

KNOWN: dict[Request, list[Outcome]] = {}  # outputs alone, kept between runs


def alone(request: Request) -> list[Outcome]:
    if request not in KNOWN:
        KNOWN[request] = plain(request)
    return KNOWN[request]


class Half(Scripted):
    """Right up to a place that the position decides, then wrong; now and then over the budget."""

    name = "half"

    def __init__(self) -> None:
        super().__init__(lambda sequence: alone(sequence.request)[sequence.choice].tokens)  # type: ignore[attr-defined]

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        right = position * 7 % 5
        wrong = [(token + 1) % VOCAB for token in ahead[right : budget + position % 3]]
        return Draft.chain([*ahead[:right], *wrong], source=self.name)


PROPOSERS = {"nothing": Nothing, "half": Half, "auto": lambda: build("auto")}
PARAMS = st.fixed_dictionaries(
    {
        "max_tokens": st.integers(0, 12),
        "temperature": st.sampled_from([0.0, 1.0]),
        "n": st.sampled_from([1, 1, 1, 2]),
        "ignore_eos": st.booleans(),
        "stop": st.sampled_from([(), ("ab",), ("bc", "a")]),
        "presence_penalty": st.sampled_from([0.0, 0.5]),
    }
)


class Interleaved(RuleBasedStateMachine):
    numbers = Bundle("numbers")

    @initialize(
        name=st.sampled_from(sorted(PROPOSERS)),
        chunk=st.integers(0, 4),
        most=st.integers(2, 4),
        rows=st.integers(4, 12),
        least=st.integers(1, 2),
        priced=st.booleans(),
    )
    def begin(self, name: str, chunk: int, most: int, rows: int, least: int, priced: bool) -> None:
        steps = StepTimes({1: 1.0, 4: 1.2, 5: 2.0, 12: 2.5}) if priced else None
        self.engine = make_engine(
            PROPOSERS[name](),
            runner=make_runner(blocks=14),
            form=Form(min_tokens=least, max_rows=rows, bitwise=True),
            planner=Planner(steps, length=None if priced else 4, min_tokens=least),
            max_sequences=most,
            prefill_chunk=chunk,
        )
        self.outcomes: Outcomes = {}
        self.requests: dict[int, Request] = {}

    @rule(
        target=numbers,
        prompt=st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=9),
        seed=st.integers(0, 2),
        params=PARAMS,
    )
    def add(self, prompt: list[int], seed: int, params: dict[str, Any]) -> int:
        request = ask(prompt, seed=seed, **params)
        number = self.engine.add(request)
        self.requests[number] = request
        return number

    @rule(count=st.integers(1, 4))
    def step(self, count: int) -> None:
        for _ in range(count):
            take(self.outcomes, self.engine.step())

    @rule(number=numbers)
    def abort(self, number: int) -> None:
        take(self.outcomes, self.engine.abort(number))

    @invariant()
    def books(self) -> None:
        if hasattr(self, "engine"):
            self.engine.check()

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        finish(self.engine, self.outcomes)
        for number, request in self.requests.items():
            for choice, expected in enumerate(alone(request)):
                got = self.outcomes[number, choice]
                if got.finish_reason == "aborted":
                    assert got.tokens == expected.tokens[: len(got.tokens)]
                    assert expected.text.startswith(got.text) or expected.finish_reason == "stop"
                else:
                    assert got.what == expected.what


TestInterleaved = Interleaved.TestCase
TestInterleaved.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

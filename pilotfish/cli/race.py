"""A race over one prompt: plain and speculative decoding of the same request, step by step in turn.

    race = Race(plain, fast, Question("a chat answer", "Why is the sky blue?", SamplingParams(seed=7)))
    for lane in race.run():          # the lane that has just made a step
        show(race.plain, race.fast)
    race.result.speedup_decode

Always the lane that has used less time of its own makes the next steps, a quarter of a second of them,
so both advance as if each had the machine for itself, and each is timed by its own steps only. (With
a turn for every step each lane would pay for the other's row count: see `StepTimes.switch`.)
Knows nothing of terminals.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from pilotfish.cli.painter import Painter
from pilotfish.engine.request import Request
from pilotfish.errors import PilotfishError
from pilotfish.llm import LLM, Choice
from pilotfish.sampling import SamplingParams

TURN = 0.25  # seconds


@dataclass(frozen=True)
class Question:
    """What a race is about."""

    title: str
    prompt: str
    params: SamplingParams


@dataclass
class Lane:
    """One side of a race. Times are seconds of its own steps.

    pieces  its text as (piece, origin)
    spent   so far; `first` and `last`: when its first and its latest token came
    """

    name: str
    llm: LLM
    choice: Choice = field(default_factory=Choice)
    pieces: list[tuple[str, str]] = field(default_factory=list)
    spent: float = 0.0
    first: float = 0.0
    last: float = 0.0

    def __post_init__(self) -> None:
        self._painter = Painter(self.llm.target.tokenizer)

    @property
    def done(self) -> bool:
        return bool(self.choice.finish_reason)

    @property
    def tokens(self) -> int:
        return len(self.choice.token_ids)

    @property
    def seen(self) -> Counter[str]:
        """Tokens by origin."""
        return self._painter.seen

    @property
    def decoding(self) -> float:
        """Seconds from the first token to the last."""
        return self.last - self.first

    @property
    def rate(self) -> float:
        """Tokens a second so far, the prompt included."""
        return self.tokens / self.spent if self.spent else 0.0

    def step(self) -> None:
        """One pass over the target. Raises PilotfishError where the request fails."""
        began = time.perf_counter()
        events = self.llm.engine.step()
        self.spent += time.perf_counter() - began
        for event in events:
            self.choice.add(event)
            self.pieces.extend(self._painter.paint(event))
            if event.tokens:
                self.last = self.spent
                self.first = self.first or self.last
            if event.finish_reason == "error":
                raise PilotfishError(event.error or "the request failed")


@dataclass(frozen=True)
class Result:
    """Two finished lanes, of one race or pooled over several.

    identical  races in which the token ids were equal, of `races`
    """

    races: int
    identical: int
    tokens: int
    accepted: int
    corrected: int
    plain_seconds: float
    fast_seconds: float
    plain_latency: float  # between tokens, the mean
    fast_latency: float

    @property
    def speedup_decode(self) -> float:
        """Plain mean inter-token latency over speculative; 1 where there was nothing to decode."""
        return self.plain_latency / self.fast_latency if self.fast_latency else 1.0

    @property
    def speedup_e2e(self) -> float:
        """Plain time over speculative, prompts included."""
        return self.plain_seconds / self.fast_seconds if self.fast_seconds else 1.0


def pooled(races: list[Race]) -> Result:
    """One result over races."""
    plain, fast = [race.plain for race in races], [race.fast for race in races]
    return Result(
        races=len(races),
        identical=sum(race.identical for race in races),
        tokens=sum(lane.tokens for lane in fast),
        accepted=sum(lane.choice.stats.accepted_tokens for lane in fast),
        corrected=sum(lane.choice.stats.corrected_rounds for lane in fast),
        plain_seconds=sum(lane.spent for lane in plain),
        fast_seconds=sum(lane.spent for lane in fast),
        plain_latency=_latency(plain),
        fast_latency=_latency(fast),
    )


def _latency(lanes: list[Lane]) -> float:
    steps = sum(max(lane.tokens - 1, 0) for lane in lanes)
    return sum(lane.decoding for lane in lanes) / steps if steps else 0.0


class Race:
    """Create one per question, `run` it to the end, then read `result`."""

    def __init__(self, plain: LLM, fast: LLM, question: Question) -> None:
        self.question = question
        self.plain = Lane("plain", plain)
        self.fast = Lane("pilotfish", fast)
        self._request = fast.request(question.prompt, question.params)

    @property
    def prompt_tokens(self) -> int:
        return len(self._request.prompt)

    @property
    def identical(self) -> bool:
        return self.plain.choice.token_ids == self.fast.choice.token_ids

    @property
    def result(self) -> Result:
        return pooled([self])

    def run(self) -> Iterator[Lane]:
        """Make steps until both lanes are done; yields the lane that has made one."""
        self._warm_up()
        lanes = (self.plain, self.fast)
        numbers = [lane.llm.submit(self._request) for lane in lanes]
        try:
            while running := [lane for lane in lanes if not lane.done]:
                lane = min(running, key=lambda lane: lane.spent)
                until = lane.spent + TURN
                while not lane.done and lane.spent < until:
                    lane.step()
                    yield lane
        finally:
            for lane, number in zip(lanes, numbers, strict=True):
                lane.llm.engine.abort(number)

    def _warm_up(self) -> None:
        """The runtime prepares itself for a prompt's length once: no lane should pay for both."""
        once = replace(self._request.params, max_tokens=1, min_tokens=0)
        self.plain.llm.run([Request(prompt=self._request.prompt, params=once, seed=self._request.seed)])

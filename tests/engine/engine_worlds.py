"""What the engine tests share: engines over worlds, and running them with every book checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pilotfish.draft import Draft
from pilotfish.engine.engine import OBSERVED_ROWS, Engine, EngineConfig, Parts
from pilotfish.engine.request import Event, Request, Summary, TokenLogprobs
from pilotfish.engine.scheduler import SchedulerConfig
from pilotfish.engine.sequence import Limits
from pilotfish.engine.sequence import Sequence as Running
from pilotfish.engine.text import GrowingText
from pilotfish.model.cache import BlockPool
from pilotfish.model.runner import Form
from pilotfish.plan.planner import Planner
from pilotfish.propose import Context, Nothing, Observation, Proposer
from pilotfish.sampling import SamplingParams
from pilotfish.testing import MarkovTarget, WorldRunner

VOCAB = 8
EOS = 7
PIECES = ("a", "b", "c", "ab", "bc", "ca", "\n", "")  # token -> text
TARGET = MarkovTarget.random(seed=11, vocab=VOCAB, order=2, spread=1.0)
TIGHT = Form(min_tokens=2, max_rows=16, bitwise=True)
WIDE = Form(min_tokens=1, max_rows=512, bitwise=False)


class Letters:
    """A text stream without a tokenizer."""

    def push(self, token: int) -> str:
        return PIECES[token]

    def finish(self) -> str:
        return ""


class Watched:
    """Passes everything on to a proposer, and remembers of whom it was asked and told."""

    def __init__(self, inner: Proposer) -> None:
        self.inner, self.name, self.top_k = inner, inner.name, inner.top_k
        self.calibrated = inner.calibrated
        self.seen: set[int] = set()
        self.forgotten: list[int] = []
        self.observations: list[Observation] = []

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        asked = {sequence.id for sequence in sequences}
        assert not asked & set(self.forgotten), "asked about a sequence that is gone"
        self.seen |= asked
        return self.inner.propose(sequences, budget)

    def observe(self, observations: Sequence[Observation]) -> None:
        self.observations.extend(observations)
        for seen in observations:
            written = seen.verdict.emitted(seen.draft)
            assert tuple(seen.sequence.tokens[-len(written) :]) == written
            shown = min(len(seen.draft) + 1, OBSERVED_ROWS)
            assert len(seen.read_tokens) == len(seen.top_ids) == shown
        self.inner.observe(observations)

    def forget(self, sequence: Context) -> None:
        assert sequence.id not in self.forgotten
        self.forgotten.append(sequence.id)
        self.inner.forget(sequence)


def make_runner(**options: object) -> WorldRunner:
    return WorldRunner(TARGET, **({"depends_on_past": 0.7} | options))


def make_engine(
    proposer: Proposer | None = None,
    *,
    runner: WorldRunner | None = None,
    planner: Planner | None = None,
    form: Form = TIGHT,
    eos_ids: Sequence[int] = (EOS,),
    verification: str = "coupled",
    **scheduler: int,
) -> Engine:
    runner = runner or make_runner()
    parts = Parts(
        runner=runner,
        pool=BlockPool(blocks=runner.blocks, block_size=runner.block_size),
        form=form,
        limits=Limits(vocab=runner.vocab, context=runner.context, eos_ids=frozenset(eos_ids)),
        text=lambda stop: GrowingText(Letters(), stop),
    )
    config = EngineConfig(verification=verification, scheduler=SchedulerConfig(**scheduler))
    watched = Watched(proposer or Nothing())
    return Engine(parts, watched, planner or Planner(None, length=5, min_tokens=form.min_tokens), config)


def pool_of(engine: Engine) -> BlockPool:
    return engine._parts.pool


def watched_of(engine: Engine) -> Watched:
    watched = engine._proposer
    assert isinstance(watched, Watched)
    return watched


@dataclass
class Outcome:
    """One choice as its events told it."""

    tokens: list[int] = field(default_factory=list)
    text: str = ""
    origins: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: str | None = None
    error: str | None = None
    summary: Summary | None = None

    def add(self, event: Event) -> None:
        assert self.finish_reason is None, "an event after the last one"
        self.tokens.extend(event.tokens)
        self.text += event.text
        self.origins.extend(event.origins)
        self.logprobs.extend(event.logprobs)
        self.finish_reason, self.error, self.summary = event.finish_reason, event.error, event.summary

    @property
    def what(self) -> tuple[list[int], str, str | None]:
        """What must not depend on speculation."""
        return self.tokens, self.text, self.finish_reason


Outcomes = dict[tuple[int, int], Outcome]  # (request id, choice)


def take(outcomes: Outcomes, events: Sequence[Event]) -> None:
    for event in events:
        outcomes.setdefault((event.request_id, event.choice), Outcome()).add(event)


def finish(engine: Engine, outcomes: Outcomes, *, most_steps: int = 2000) -> Outcomes:
    """Step until nothing is left, with all books checked after every step and at the end."""
    steps = 0
    while engine.busy:
        take(outcomes, engine.step())
        engine.check()
        steps += 1
        assert steps < most_steps, "the engine does not come to an end"
    pool, watched = pool_of(engine), watched_of(engine)
    assert pool.free == pool.total and pool.promised == 0
    assert watched.seen <= set(watched.forgotten)
    for outcome in outcomes.values():
        assert outcome.finish_reason and outcome.summary is not None
        assert len(outcome.origins) == len(outcome.tokens) == outcome.summary.stats.emitted_tokens
        outcome.summary.stats.check()
    return outcomes


def run(engine: Engine, requests: Sequence[Request]) -> list[list[Outcome]]:
    """Run requests together; the outcomes of each one's choices."""
    numbers = [engine.add(request) for request in requests]
    outcomes = finish(engine, {})
    return [
        [outcomes[number, choice] for choice in range(request.params.n)]
        for number, request in zip(numbers, requests, strict=True)
    ]


def run_one(engine: Engine, request: Request) -> Outcome:
    return run(engine, [request])[0][0]


def ask(prompt: Sequence[int], *, seed: int = 1, **params: object) -> Request:
    return Request(prompt=tuple(prompt), params=SamplingParams(**params), seed=seed)


def plain(request: Request, **options: object) -> list[Outcome]:
    """The request alone, without speculation: what everything else must equal."""
    return run(make_engine(**options), [request])[0]


def script(requests: Sequence[Request], **options: object) -> Callable[[Context], Sequence[int]]:
    """What scripted proposers are given: the plain output of each choice of these requests."""
    known = {
        (request.prompt, request.seed, choice): outcome.tokens
        for request in requests
        for choice, outcome in enumerate(plain(request, **options))
    }

    def output(sequence: Running) -> Sequence[int]:
        return known[sequence.request.prompt, sequence.request.seed, sequence.choice]

    return output

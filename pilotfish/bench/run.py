"""Runs the sides of a benchmark against each other: plain, plain in the runtime's own shape, each draft.

    result = Bench(llm, BenchOptions(drafts=("suffix",), repeat=3)).run(prompts, params)
    result.plain, result.runs[0].side.draft

The sides take turns prompt by prompt (or group by group, with several requests at a time), in
alternating order, so that a slow moment of the machine hits all of them. Every repeat has fresh
engines and proposers: a suffix index that has seen a text would otherwise know it by heart.
Knows nothing of how figures are computed or shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pilotfish.bench.serve import Conversation, Group, fits, serve
from pilotfish.bench.workload import Prompt
from pilotfish.errors import BadRequest
from pilotfish.llm import LLM
from pilotfish.model.load import specialise
from pilotfish.model.runner import NUMERIC
from pilotfish.sampling import SamplingParams

Show = Callable[[float, str], None]
_GROUP = 4  # requests a place in flight: the ends of groups, with places empty, stay short
_WARM_UP = 8  # tokens


def _silent(_share: float, _note: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """drafts       what to measure, one run each
    concurrency  requests in flight
    repeat       how often; medians are taken
    """

    drafts: tuple[str, ...] = ("auto",)
    concurrency: int = 1
    repeat: int = 1

    def __post_init__(self) -> None:
        for name in ("concurrency", "repeat"):
            if getattr(self, name) < 1:
                raise BadRequest(f"{name} must be at least 1, found {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Side:
    """One way of decoding the same work. `fresh` makes an engine that has seen nothing."""

    name: str
    draft: str
    exactness: str
    fresh: Callable[[], LLM]


@dataclass
class Run:
    """All that one side did: for each repeat, its groups and the seconds of each part of its steps."""

    side: Side
    repeats: list[list[Group]] = field(default_factory=list)
    seconds: list[dict[str, float]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Result:
    """All runs of one invocation.

    numeric  the plain run with one row a sequence, where the others are bitwise; else None
    runs     one for each draft
    skipped  ids of prompts that do not fit the context
    """

    llm: LLM
    params: SamplingParams
    options: BenchOptions
    prompts: list[Prompt]
    plain: Run
    numeric: Run | None
    runs: list[Run]
    skipped: list[str]


class Bench:
    """Measures drafts over one loaded model. `run` once for each set of prompts."""

    def __init__(self, llm: LLM, options: BenchOptions) -> None:
        if llm.engine.busy:
            raise BadRequest("a benchmark needs the model for itself; finish or abort its requests first")
        self._llm = llm
        self._options = options
        # Admission would hold back what is beyond max_sequences, and call the wait latency.
        self._most = max(options.concurrency, llm.speculation.max_sequences)

    def run(self, prompts: Sequence[Prompt], params: SamplingParams, show: Show = _silent) -> Result:
        """Measure. `show` is told the share that is done. Raises BadRequest where no prompt fits."""
        if params.n != 1:
            raise BadRequest(f"a benchmark asks for one choice a prompt, found n = {params.n}")
        if params.max_tokens < 1:
            raise BadRequest("a benchmark needs at least one new token a prompt, found max_tokens = 0")
        fitting = [
            prompt for prompt in prompts if fits(self._llm, Conversation(prompt, self._llm).ids(), params)
        ]
        if not fitting:
            raise BadRequest(
                f"none of {len(prompts)} prompts fits the context of {self._llm.target.runner.context} "
                f"tokens with {params.max_tokens} new ones; ask for fewer, or give shorter prompts"
            )
        plain, numeric, drafted = (
            Run(self._plain()),
            self._numeric(),
            [Run(self._drafted(d)) for d in self._options.drafts],
        )
        everyone = [plain, *([numeric] if numeric else []), *drafted]
        for run in everyone:
            serve(
                run.side.fresh(),
                fitting[:1],
                replace(params, max_tokens=min(_WARM_UP, params.max_tokens)),
                concurrency=1,
            )
        for repeat in range(self._options.repeat):
            self._repeat(repeat, everyone, fitting, params, show=show)
        return Result(
            llm=self._llm,
            params=params,
            options=self._options,
            prompts=fitting,
            plain=plain,
            numeric=numeric,
            runs=drafted,
            skipped=[prompt.id for prompt in prompts if prompt not in fitting],
        )

    # The sides.

    def _plain(self) -> Side:
        llm = self._llm
        return Side(
            name="plain",
            draft="none",
            exactness=llm.target.exactness,
            fresh=lambda: llm.with_speculation(draft="none", max_sequences=self._most),
        )

    def _numeric(self) -> Run | None:
        """Plain decoding as other engines do it, one row a sequence: bitwise pays for a second."""
        if not self._llm.target.form.bitwise:
            return None
        target = replace(self._llm.target, form=NUMERIC)
        if target.steps.ready:  # where bitwise passes have graphs of their own, so has this baseline
            target = specialise(replace(target, steps=replace(target.steps, ready=())))
        make = lambda: LLM(target, draft="none", max_sequences=self._most)  # noqa: E731
        return Run(Side(name="plain, numeric", draft="none", exactness="numeric", fresh=make))

    def _drafted(self, draft: str) -> Side:
        llm = self._llm
        return Side(
            name=draft,
            draft=draft,
            exactness=llm.target.exactness,
            fresh=lambda: llm.with_speculation(draft=draft, max_sequences=self._most),
        )

    # One repeat.

    def _repeat(
        self, repeat: int, everyone: list[Run], prompts: list[Prompt], params: SamplingParams, *, show: Show
    ) -> None:
        engines = [run.side.fresh() for run in everyone]
        groups = self._groups(prompts)
        for run in everyone:
            run.repeats.append([])
        done, total = repeat * len(groups) * len(everyone), self._options.repeat * len(groups) * len(everyone)
        for number, group in enumerate(groups):
            for place in _order(everyone, backwards=(number + repeat) % 2 == 1):
                show(done / total, f"{group[0].id}, {everyone[place].side.name}")
                served = serve(engines[place], group, params, concurrency=self._options.concurrency)
                everyone[place].repeats[-1].append(served)
                done += 1
                if place == 0:
                    _record(served, engines)
        for run, llm in zip(everyone, engines, strict=True):
            llm.engine.check()
            run.seconds.append(llm.engine.seconds)

    def _groups(self, prompts: list[Prompt]) -> list[list[Prompt]]:
        concurrency = self._options.concurrency
        size = 1 if concurrency == 1 else _GROUP * concurrency
        return [prompts[start : start + size] for start in range(0, len(prompts), size)]


def _order(runs: list[Run], *, backwards: bool) -> list[int]:
    """Which run goes when. Replay needs what the plain run, which is the first, has just written."""
    order = list(range(len(runs)))[:: -1 if backwards else 1]
    return sorted(order, key=lambda place: "replay" in runs[place].side.draft)


def _record(plain: Group, engines: list[LLM]) -> None:
    for reply in plain.replies:
        for llm in engines:
            if "replay" in llm.speculation.draft:
                llm.record(reply.prompt, reply.token_ids)

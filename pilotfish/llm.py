"""The front door in Python.

    from pilotfish import LLM, SamplingParams

    llm = LLM()                                      # the embedded model, speculation on
    reply = llm.generate("Why is the sky blue?")     # a chat turn, greedy
    print(reply.text, reply.stats.mean_acceptance_length)

    for event in llm.stream("Write a poem", SamplingParams(temperature=0.8, seed=7)):
        print(event.text, end="", flush=True)

The text is what the model alone would have written for the same prompt, parameters and seed,
whatever `draft` is. Knows nothing of terminals or HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pilotfish.engine.engine import Engine, EngineConfig, Parts
from pilotfish.engine.request import Event, Request, Timing, TokenLogprobs
from pilotfish.engine.scheduler import SchedulerConfig
from pilotfish.engine.sequence import Limits
from pilotfish.engine.stats import Stats
from pilotfish.engine.text import GrowingText
from pilotfish.errors import BadRequest
from pilotfish.model.load import ModelOptions, Target, load
from pilotfish.model.tokenizer import TextStream
from pilotfish.plan.planner import MOST_NODES, Planner
from pilotfish.propose.spec import build
from pilotfish.sampling import SamplingParams
from pilotfish.verify import Verification

Message: TypeAlias = Mapping[str, object]
Prompt: TypeAlias = "str | Sequence[int] | Sequence[Message]"


@dataclass(frozen=True, kw_only=True)
class SpeculationOptions:
    """How to speculate. None of it changes the text in `coupled` verification.

    draft          what proposes: "auto", "none", "ngram", "suffix", "recycle", "replay:RATE",
                   several joined with "+"
    draft_length   "auto": what pays by the measured step times; or a fixed number of nodes, 0 to 15
    verification   "coupled", "rejection" or "block"
    max_sequences  choices that run at the same time
    prefill_chunk  most prompt tokens of one request in a pass; 0: as many as fit
    """

    draft: str = "auto"
    draft_length: str | int = "auto"
    verification: str = "coupled"
    max_sequences: int = 16
    prefill_chunk: int = 0

    def __post_init__(self) -> None:
        Verification.named(self.verification)
        length = self.draft_length
        if length != "auto" and (type(length) is not int or not 0 <= length <= MOST_NODES):
            raise BadRequest(f"draft_length must be 'auto' or 0 to {MOST_NODES}, found {length!r}")
        if self.max_sequences < 1 or self.prefill_chunk < 0:
            raise BadRequest(
                f"max_sequences must be at least 1 (found {self.max_sequences}) and prefill_chunk 0 or more "
                f"({self.prefill_chunk})"
            )


@dataclass
class Choice:
    """One continuation of a prompt.

    origins  per token: the source that drafted it, "corrected" or "target"
    error    what went wrong where finish_reason is "error"
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprobs] = field(default_factory=list)
    finish_reason: str = ""
    error: str | None = None
    stats: Stats = field(default_factory=Stats)
    timing: Timing = field(default_factory=Timing)

    def add(self, event: Event) -> None:
        """Take in one event of this choice."""
        self.text += event.text
        self.token_ids.extend(event.tokens)
        self.origins.extend(event.origins)
        self.logprobs.extend(event.logprobs)
        self.finish_reason = event.finish_reason or self.finish_reason
        self.error = event.error or self.error
        if event.summary is not None:
            self.stats, self.timing = event.summary.stats, event.summary.timing


@dataclass
class Completion:
    """A finished request: `choices`, and the first of them under its own names.

    seed           the seed that was used: the same request with it gives the same tokens
    prompt_tokens  length of the prompt in tokens
    """

    prompt_tokens: int
    seed: int
    choices: list[Choice]

    @property
    def text(self) -> str:
        return self.choices[0].text

    @property
    def token_ids(self) -> list[int]:
        return self.choices[0].token_ids

    @property
    def finish_reason(self) -> str:
        return self.choices[0].finish_reason

    @property
    def stats(self) -> Stats:
        """Counts over all choices."""
        total = Stats()
        for choice in self.choices:
            total.add(choice.stats)
        return total


class LLM:
    """A model and one way of speculating on it. Not thread safe.

    Keyword options are those of ModelOptions and SpeculationOptions; an unknown one is a TypeError.
    Raises BadModel, BadTokenizer, BadRequest or Unproven. `progress` is told what takes long.

    lasting  the program runs for long: a small model starts later, takes more memory and is faster
    """

    def __init__(
        self,
        target: str | Target = "embedded",
        *,
        progress: Callable[[str], None] | None = None,
        lasting: bool = False,
        **options: object,
    ) -> None:
        speculation = {
            name: options.pop(name) for name in SpeculationOptions.__dataclass_fields__ if name in options
        }
        self.speculation = SpeculationOptions(**speculation)  # type: ignore[arg-type]
        self._recordings: dict[tuple[int, ...], list[int]] = {}
        self._unread: dict[int, list[Event]] = {}  # of requests under way, by request id
        # Before the load, so that a bad name fails at once.
        proposer = build(self.speculation.draft, record=self._recordings.get)
        if isinstance(target, Target):
            if options:
                raise BadRequest(f"a loaded model takes no more options, found {', '.join(options)}")
            self.target = target
        else:
            model = ModelOptions(target=target, **options)  # type: ignore[arg-type]
            self.target = load(model, progress or (lambda _: None), lasting=lasting)
        self.engine = Engine(self._parts(), proposer, self._planner(), self._engine_config())

    def _parts(self) -> Parts:
        target = self.target
        limits = Limits(
            vocab=target.runner.vocab, context=target.runner.context, eos_ids=target.tokenizer.eos_ids
        )
        return Parts(
            runner=target.runner,
            pool=target.pool,
            form=target.form,
            limits=limits,
            text=lambda stop: GrowingText(TextStream(target.tokenizer, continues=True), stop),
        )

    def _planner(self) -> Planner:
        length = self.speculation.draft_length
        fixed = length if isinstance(length, int) else None
        return Planner(self.target.steps, length=fixed, min_tokens=self.target.form.min_tokens)

    def _engine_config(self) -> EngineConfig:
        speculation = self.speculation
        scheduler = SchedulerConfig(
            max_sequences=speculation.max_sequences, prefill_chunk=speculation.prefill_chunk
        )
        return EngineConfig(verification=speculation.verification, scheduler=scheduler)

    def with_speculation(self, **changes: object) -> LLM:
        """Another LLM over the same loaded model, with other speculation options."""
        fields = {name: getattr(self.speculation, name) for name in SpeculationOptions.__dataclass_fields__}
        return LLM(self.target, **(fields | changes))

    def prompt_ids(self, prompt: Prompt, *, raw: bool = False) -> tuple[int, ...]:
        """The ids of a prompt: ids as they are, messages through the chat template, a text as one
        user turn (or as it is, with `raw` or where the model has no template)."""
        tokenizer = self.target.tokenizer
        if isinstance(prompt, str):
            if raw or not tokenizer.has_chat_template:
                return tuple(tokenizer.prompt(prompt))
            return tuple(tokenizer.chat([{"role": "user", "content": prompt}]))
        if prompt and isinstance(prompt[0], Mapping):
            return tuple(tokenizer.chat(prompt))  # type: ignore[arg-type]
        return tuple(prompt)  # type: ignore[arg-type]

    def request(self, prompt: Prompt, params: SamplingParams | None = None, *, raw: bool = False) -> Request:
        """The request for a prompt, with the seed that will be used."""
        params = params or SamplingParams()
        params.check_vocab(self.target.runner.vocab)
        seed = secrets.randbits(63) if params.seed is None else params.seed
        return Request(prompt=self.prompt_ids(prompt, raw=raw), params=params, seed=seed)

    def generate(
        self, prompt: Prompt, params: SamplingParams | None = None, *, raw: bool = False
    ) -> Completion:
        """Continue one prompt.

        A request that cannot be served raises BadRequest; one that fails while it runs ends with
        finish_reason "error" (as in `generate_all`, where the others go on).
        """
        return self.generate_all([prompt], params, raw=raw)[0]

    def generate_all(
        self, prompts: Sequence[Prompt], params: SamplingParams | None = None, *, raw: bool = False
    ) -> list[Completion]:
        """Continue several prompts together in one batch; see `generate`."""
        return self.run([self.request(prompt, params, raw=raw) for prompt in prompts])

    def run(self, requests: Sequence[Request]) -> list[Completion]:
        """Run requests together until all are finished, in the order given."""
        done = [Completion(len(r.prompt), r.seed, [Choice() for _ in range(r.params.n)]) for r in requests]
        numbers: list[int] = []
        try:
            for request in requests:
                numbers.append(self._begin(request))
            for number, completion in zip(numbers, done, strict=True):
                for event in self._events(number, len(completion.choices)):
                    completion.choices[event.choice].add(event)
        finally:
            for number in numbers:
                self._end(number)
        return done

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, *, raw: bool = False
    ) -> Iterator[Event]:
        """Continue a prompt, an event a round and choice. Leaving the loop early frees the request."""
        return self.stream_request(self.request(prompt, params, raw=raw))

    def stream_request(self, request: Request) -> Iterator[Event]:
        """`stream` for a request made by `request`."""
        number = self._begin(request)
        try:
            yield from self._events(number, request.params.n)
        finally:
            self._end(number)

    def _begin(self, request: Request) -> int:
        number = self.submit(request)
        self._unread[number] = []
        return number

    def _events(self, number: int, unfinished: int) -> Iterator[Event]:
        """The events of a request until all its choices have ended. A step brings those of other
        requests too: they are kept for their own readers."""
        while unfinished and (self._unread[number] or self.engine.busy):
            if not self._unread[number]:
                self._deliver(self.engine.step())
            events, self._unread[number] = self._unread[number], []
            for event in events:
                unfinished -= event.finish_reason is not None
                yield event

    def _deliver(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.request_id in self._unread:
                self._unread[event.request_id].append(event)

    def _end(self, number: int) -> None:
        self.engine.abort(number)
        self._unread.pop(number, None)

    def submit(self, request: Request) -> int:
        """Queue a request whose caller steps `engine` itself. Returns the id that its events carry."""
        self._record(request)
        return self.engine.add(request)

    def record(self, prompt: tuple[int, ...], output: Sequence[int]) -> None:
        """Give `replay` the plain output of a prompt."""
        self._recordings[prompt] = list(output)

    def _record(self, request: Request) -> None:
        """Replay needs the plain output first; without a recording the request is run plainly."""
        if "replay" not in self.speculation.draft or request.prompt in self._recordings:
            return
        plain = self.with_speculation(draft="none")
        self.record(request.prompt, plain.run([request])[0].token_ids)

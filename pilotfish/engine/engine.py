"""The engine: many requests, one loop of rounds.

A step is: schedule, propose, forward, verify, commit, observe. Plain decoding is the same step
with the empty proposer.

    engine = Engine(parts, proposer, Planner(steps), EngineConfig())
    request_id = engine.add(request)
    while engine.busy:
        for event in engine.step(): ...

Knows nothing of model files, chat templates or HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from pilotfish.draft import Draft, Verdict
from pilotfish.engine.admission import Admission
from pilotfish.engine.request import Event, Request, Summary
from pilotfish.engine.round import Round
from pilotfish.engine.scheduler import Scheduler, SchedulerConfig, Work
from pilotfish.engine.sequence import Limits, Sequence
from pilotfish.engine.stats import Stats
from pilotfish.engine.text import GrowingText
from pilotfish.errors import BadDraft, BadLogits
from pilotfish.model.cache import BlockPool, KVCache
from pilotfish.model.runner import Form, Runner, Slice, best_ids
from pilotfish.plan.planner import Planner
from pilotfish.propose import Observation, Proposer
from pilotfish.propose.survival import Survival
from pilotfish.verify import verify

OBSERVED_ROWS = 6  # whose best ids proposers are shown: deeper ones are rarely reached, and cost the same


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What an engine runs on. Engines may share all of it; `text` makes one choice's text."""

    runner: Runner
    pool: BlockPool
    form: Form
    limits: Limits
    text: Callable[[tuple[str, ...]], GrowingText]


@dataclass(frozen=True, kw_only=True)
class EngineConfig:
    """How rounds are judged ("coupled", "rejection" or "block") and how a pass is shared."""

    verification: str = "coupled"
    scheduler: SchedulerConfig = field(default_factory=SchedulerConfig)


class Engine:
    """Runs requests: `add` them, call `step` while `busy`, `abort` at any moment.

    `stats` counts all rounds so far, `seconds` the time spent in each part of the steps.
    """

    def __init__(self, parts: Parts, proposer: Proposer, planner: Planner, config: EngineConfig) -> None:
        self._parts = parts
        self._proposer = proposer
        self._planner = planner
        self._verification = config.verification
        self._scheduler = Scheduler(parts.form, config.scheduler)
        self._admission = Admission(parts.pool, parts.limits, config.scheduler.max_sequences)
        self._survival = Survival()
        self._cache = KVCache(parts.pool)
        self._running: list[Sequence] = []
        self._ids = count()
        self.stats = Stats()
        self.seconds: dict[str, float] = {}

    @property
    def busy(self) -> bool:
        """True while any request is unfinished."""
        return bool(self._admission.waiting or self._running)

    def add(self, request: Request) -> int:
        """Queue a request and return its id. Raises BadRequest for one that can never be served."""
        self._admission.refuse_impossible(request)
        number = next(self._ids)
        text = self._parts.text(request.params.stop)
        self._admission.waiting.append(
            Sequence(request, id=number, request_id=number, text=text, limits=self._parts.limits)
        )
        return number

    def abort(self, request_id: int) -> list[Event]:
        """Stop a request now. Returns the closing events of its choices; none where it is unknown."""
        running = [sequence for sequence in self._running if sequence.request_id == request_id]
        stopped = [*self._admission.withdraw(request_id), *running]
        events = [self._close(sequence, "aborted") for sequence in stopped]
        unborn = [choice for sequence in stopped for choice in self._forks(sequence)]
        events.extend(self._close(choice, "aborted") for choice in unborn)
        self._retire()
        return events

    def step(self) -> list[Event]:
        """One pass over the target, and what came of it. Nothing happens where nothing waits or runs."""
        admitted = self._admission.admit(self._running)
        self._running.extend(admitted)
        events = [
            event
            for sequence in admitted
            if sequence.remaining <= 0
            for event in self._nothing_to_do(sequence)
        ]
        works = self._scheduler.schedule(
            [sequence for sequence in self._running if not sequence.finish_reason]
        )
        if works:
            with self._timed("propose"):
                rounds = self._draft(works)
            with self._timed("forward"):
                logits = self._forward(rounds)
            observations: list[Observation] = []
            with self._timed("verify"):
                for part, rows in zip(rounds, logits, strict=True):
                    events.extend(self._judge(part, rows, observations))
            with self._timed("observe"):
                self._proposer.observe(observations)
        self._retire()
        return events

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began

    def _nothing_to_do(self, sequence: Sequence) -> list[Event]:
        """Zero new tokens asked for, or a full context: a defined, empty result for every choice."""
        choices = [sequence, *self._forks(sequence)]
        return [self._close(choice, "length") for choice in choices]

    # One round: draft, forward, judge.

    def _draft(self, works: list[Work]) -> list[Round]:
        """Ask for drafts where this pass will reach the end of what is known, and cut them to what pays."""
        ready = [work for work in works if work.completes and not work.sequence.forks]
        others = [Round(work) for work in works if not (work.completes and not work.sequence.forks)]
        if not ready or not self._planner.budget:
            return [*map(Round, ready), *others]
        proposed = self._propose([work.sequence for work in ready])
        other_rows = sum(max(part.work.read, self._parts.form.min_tokens) for part in others)
        kept = self._planner.cut(
            proposed if self._proposer.calibrated else [self._survival.price(draft) for draft in proposed],
            read=[work.read for work in ready],
            other_rows=other_rows,
            room=self._parts.form.max_rows - other_rows,
        )
        return [*map(Round, ready, kept, proposed), *others]

    def _propose(self, sequences: list[Sequence]) -> list[Draft]:
        budget = self._planner.budget
        drafts: list[Draft] = []
        for sequence, draft in zip(sequences, self._proposer.propose(sequences, budget), strict=True):
            affordable = draft if len(draft) <= budget else draft.keep(range(budget))
            # A draft of depth d leads to d + 1 tokens: deeper nodes could never be emitted.
            fitting = affordable.within(vocab=self._parts.limits.vocab, depth=sequence.remaining - 1)
            if fitting.laws is not None and not fitting.is_chain:
                raise BadDraft("this runtime verifies chains; the proposer drew a tree from its laws")
            drafts.append(fitting)
        return drafts

    def _forward(self, rounds: list[Round]) -> list[np.ndarray]:
        brought = [part.tokens for part in rounds]
        # A pad is written to the next slot and overwritten by the next round; its row is not read.
        for tokens in brought:
            tokens.extend(tokens[-1:] * (self._parts.form.min_tokens - len(tokens)))
        self._fill_up(rounds, brought)
        slices: list[Slice] = []
        for part, tokens in zip(rounds, brought, strict=True):
            sequence = part.work.sequence
            blocks = self._cache.reserve(sequence.id, sequence.computed + len(tokens))
            slices.append(Slice(tokens, sequence.computed, blocks, part.wanted))
        began = time.perf_counter()
        logits = self._parts.runner.forward(slices).logits
        if all(part.work.completes and part.work.read == 1 for part in rounds):
            self._planner.took(sum(map(len, brought)), time.perf_counter() - began)
        return logits

    def _fill_up(self, rounds: list[Round], brought: list[list[int]]) -> None:
        """Pads up to the row count that the planner keeps, on a sequence that has the slots anyway."""
        lacking = self._planner.rows - sum(map(len, brought))
        if lacking <= 0 or not all(part.work.completes for part in rounds):
            return
        for part, tokens in zip(rounds, brought, strict=True):
            sequence = part.work.sequence
            if sequence.computed + len(tokens) + lacking <= sequence.most_tokens:
                tokens.extend(tokens[-1:] * lacking)
                return

    def _judge(self, part: Round, rows: np.ndarray, observations: list[Observation]) -> list[Event]:
        """Turn a sequence's rows into tokens; a prompt that is still being read only advances."""
        sequence = part.work.sequence
        self._commit(sequence, part.work.read)
        if not part.work.completes:
            return []
        top_ids = best_ids(rows[:OBSERVED_ROWS], self._proposer.top_k)
        choices = [sequence, *self._forks(sequence)]
        events: list[Event] = []
        for choice in choices:
            known = len(choice.tokens)
            try:
                verdict = verify(self._verification, part.draft, rows, choice)
            except (BadLogits, BadDraft) as error:
                events.append(self._fail(choice, part, known, str(error)))
                continue
            events.append(self._accept(choice, part, verdict))
            read = np.array([choice.tokens[known - 1], *part.draft.tokens][:OBSERVED_ROWS])
            observations.append(Observation(choice, part.draft, verdict, read, top_ids))
        return events

    def _accept(self, choice: Sequence, part: Round, verdict: Verdict, *, error: str | None = None) -> Event:
        draft = part.draft
        self._commit(choice, len(verdict.path))
        if not self._proposer.calibrated:
            self._survival.follow(part.lesson, verdict.emitted(draft))
        choice.stats.count(draft, verdict)
        self.stats.count(draft, verdict)
        choice.timing.tick()
        last = "corrected" if verdict.corrected(draft) else "target"
        origins = (*(draft.sources[node] for node in verdict.path), last)
        return self._event(choice, known=len(choice.tokens) - len(origins), origins=origins, error=error)

    def _fail(self, choice: Sequence, part: Round, known: int, error: str) -> Event:
        """A row was no law. What was emitted before it stands, and the last token is the round's own."""
        choice.finish_reason = "error"
        choice.text.close(stops=False)
        written = choice.tokens[known:]  # all of them drafted, since the row after them was read
        if not written:
            return self._event(choice, known=known, error=error)
        verdict = Verdict(tuple(range(len(written) - 1)), written[-1])
        return self._accept(choice, part, verdict, error=error)

    def _commit(self, sequence: Sequence, tokens: int) -> None:
        sequence.computed += tokens
        self._cache.commit(sequence.id, sequence.computed)

    def _forks(self, sequence: Sequence) -> list[Sequence]:
        """The other choices of a request whose prompt has just been read; they share its blocks.

        (Or of one that ended before: those are born to be closed, and need no blocks.)
        """
        siblings: list[Sequence] = []
        while sequence.forks:
            sibling = sequence.fork(id=next(self._ids), text=self._parts.text(sequence.request.params.stop))
            if sequence.computed and not sequence.finish_reason:
                self._cache.fork(sequence.id, sibling.id, self._parts.runner.copy_block)
            self._running.append(sibling)
            siblings.append(sibling)
        return siblings

    # The end of a choice.

    def _close(self, choice: Sequence, reason: str) -> Event:
        choice.finish_reason = reason
        choice.text.close(stops=False)
        return self._event(choice, known=len(choice.tokens))

    def _event(
        self, choice: Sequence, *, known: int, origins: tuple[str, ...] = (), error: str | None = None
    ) -> Event:
        finished = choice.finish_reason is not None
        return Event(
            request_id=choice.request_id,
            choice=choice.choice,
            text=choice.text.take(),
            tokens=tuple(choice.tokens[known:]),
            origins=origins,
            logprobs=tuple(choice.logprobs[known - choice.prompt_length :]),
            finish_reason=choice.finish_reason,
            error=error,
            summary=Summary(choice.stats, choice.timing) if finished else None,
        )

    def _retire(self) -> None:
        """Let go of what is finished: blocks, promises, proposers' memories."""
        gone = [sequence for sequence in self._running if sequence.finish_reason]
        if gone:
            self._running = [sequence for sequence in self._running if not sequence.finish_reason]
            for sequence in gone:
                self._cache.release(sequence.id)
                self._proposer.forget(sequence)
            self._admission.settle(self._running)

    def check(self) -> None:
        """Test the cache's books and the identities of the counts. Raises PilotfishError."""
        self._cache.check()
        self.stats.check()

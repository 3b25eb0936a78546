"""A closed loop: so many conversations in flight on one engine, until a list of prompts is answered.

    group = serve(llm, prompts, params, concurrency=1)
    group.wall, [reply.token_ids for reply in group.replies]

Turns of a prompt run one after the other, with the model's own replies between them. A turn that
does not fit the context ends its conversation and is counted, never cut. Knows nothing of
statistics or of which engine is measured against which.
"""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from pilotfish.bench.workload import Prompt
from pilotfish.engine.request import Event, Request
from pilotfish.engine.stats import Stats
from pilotfish.errors import PilotfishError
from pilotfish.llm import LLM, Choice
from pilotfish.sampling import SamplingParams


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answered turn. Times in seconds.

    ttft    from the request to its first token
    decode  from the first token to the last
    """

    prompt_id: str
    category: str
    turn: int
    prompt: tuple[int, ...]
    token_ids: tuple[int, ...]
    ttft: float
    decode: float
    stats: Stats

    @property
    def wall(self) -> float:
        """From the request to its last token."""
        return self.ttft + self.decode


@dataclass
class Group:
    """What came of one closed loop: replies in the order in which they ended."""

    replies: list[Reply] = field(default_factory=list)
    wall: float = 0.0
    steps: int = 0
    skipped_turns: int = 0


def fits(llm: LLM, ids: Sequence[int], params: SamplingParams) -> bool:
    """True when a prompt and all it may be answered with fit the context and the cache."""
    target = llm.target
    slots = (target.pool.total - 1) * target.pool.block_size  # one block less: a pad may need a slot more
    return len(ids) + params.max_tokens <= min(target.runner.context, slots)


class Conversation:
    """A prompt under way: `ids` of its next turn, `answer` with what the model said."""

    def __init__(self, prompt: Prompt, llm: LLM) -> None:
        self.prompt = prompt
        self.turn = 0
        self._llm = llm
        self._raw = prompt.raw or not llm.target.tokenizer.has_chat_template
        self._said: list[str] = []

    @property
    def over(self) -> bool:
        return self.turn >= len(self.prompt.turns)

    def ids(self) -> tuple[int, ...]:
        """The prompt of the next turn: everything said so far, and the user's next text."""
        texts = [*self._said, self.prompt.turns[self.turn]]
        if self._raw:
            return self._llm.prompt_ids("".join(texts), raw=True)
        roles = ("user", "assistant")
        return self._llm.prompt_ids([{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)])

    def answer(self, text: str) -> None:
        self._said.extend((self.prompt.turns[self.turn], text))
        self.turn += 1


def seed_of(prompt: Prompt, params: SamplingParams) -> int:
    """A seed that depends on the prompt's id alone, so that a part of a file gives the same texts."""
    return ((params.seed or 0) + zlib.crc32(prompt.id.encode())) % 2**64


@dataclass
class _Flight:
    conversation: Conversation
    request: Request
    choice: Choice = field(default_factory=Choice)


def serve(llm: LLM, prompts: Sequence[Prompt], params: SamplingParams, *, concurrency: int) -> Group:
    """Answer all prompts, `concurrency` at a time. Raises PilotfishError where a request fails."""
    waiting = deque(Conversation(prompt, llm) for prompt in prompts)
    flights: dict[int, _Flight] = {}
    group = Group()
    began = time.perf_counter()
    try:
        while waiting or flights:
            while waiting and len(flights) < concurrency:
                _take_off(llm, waiting.popleft(), params, flights, group)
            group.steps += bool(flights)
            for event in llm.engine.step():
                landed = _follow(flights, event)
                if landed is not None:
                    group.replies.append(_reply(landed))
                    landed.conversation.answer(landed.choice.text)
                    _take_off(llm, landed.conversation, params, flights, group)
    finally:
        for number in list(flights):
            llm.engine.abort(number)
    group.wall = time.perf_counter() - began
    return group


def _take_off(
    llm: LLM, conversation: Conversation, params: SamplingParams, flights: dict[int, _Flight], group: Group
) -> None:
    """Send the next turn of a conversation, where there is one and it fits."""
    if conversation.over:
        return
    ids = conversation.ids()
    if not fits(llm, ids, params):
        group.skipped_turns += len(conversation.prompt.turns) - conversation.turn
        return
    request = Request(prompt=ids, params=params, seed=seed_of(conversation.prompt, params))
    flights[llm.submit(request)] = _Flight(conversation, request)


def _follow(flights: dict[int, _Flight], event: Event) -> _Flight | None:
    """Take in an event; the flight that ended with it, if one did."""
    flight = flights[event.request_id]
    flight.choice.add(event)
    if event.finish_reason is None:
        return None
    if event.finish_reason == "error":
        raise PilotfishError(f"prompt {flight.conversation.prompt.id!r} failed: {event.error}")
    return flights.pop(event.request_id)


def _reply(flight: _Flight) -> Reply:
    timing, conversation = flight.choice.timing, flight.conversation
    return Reply(
        prompt_id=conversation.prompt.id,
        category=conversation.prompt.category,
        turn=conversation.turn,
        prompt=flight.request.prompt,
        token_ids=tuple(flight.choice.token_ids),
        ttft=max(0.0, timing.first_token - timing.added),  # 0 where no token was asked for
        decode=timing.last_token - timing.first_token,
        stats=flight.choice.stats,
    )

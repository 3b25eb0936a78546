"""Who may begin: requests wait here until the cache can hold all that they may come to need.

A request is admitted only when its worst case (every choice at full length, one pad each) fits
beside the worst cases of those that run. So a running sequence never lacks a block.

Knows nothing of passes or drafts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Series

from pilotfish.engine.request import Request
from pilotfish.engine.sequence import Limits, Sequence
from pilotfish.errors import BadRequest, OutOfBlocks
from pilotfish.model.cache import BlockPool


class Admission:
    """First come, first served. `refuse_impossible` at the door, `admit` before each pass."""

    def __init__(self, pool: BlockPool, limits: Limits, max_sequences: int) -> None:
        self._pool = pool
        self._limits = limits
        self._most = max_sequences
        self._promised: dict[int, int] = {}  # request id -> blocks it may come to hold
        self.waiting: deque[Sequence] = deque()

    def refuse_impossible(self, request: Request) -> None:
        """Raises BadRequest for a request that could never run, naming what is too much."""
        length, limits = len(request.prompt), self._limits
        if length == 0:
            raise BadRequest("the prompt is empty: at least one token is needed to continue from")
        if length > limits.context:
            raise BadRequest(
                f"the prompt has {length} tokens, the model's context holds {limits.context}; "
                "shorten the prompt"
            )
        outside = next((token for token in request.prompt if not 0 <= token < limits.vocab), None)
        if outside is not None:
            raise BadRequest(f"prompt token {outside} is outside the vocabulary [0, {limits.vocab})")
        request.params.check_vocab(limits.vocab)
        if request.params.n > self._most:
            raise BadRequest(
                f"{request.params.n} choices asked for; at most {self._most} sequences run at once"
            )
        needed = self._needed(request)
        if needed > self._pool.total:
            raise BadRequest(
                f"the request may need {needed} cache blocks of {self._pool.block_size} tokens and the cache "
                f"has {self._pool.total}; ask for fewer tokens or choices, or enlarge the cache"
            )

    def _needed(self, request: Request) -> int:
        longest = min(len(request.prompt) + request.params.max_tokens, self._limits.context) + 1
        return -(-longest // self._pool.block_size) * request.params.n

    def admit(self, running: Series[Sequence]) -> list[Sequence]:
        """Take from the queue those that may begin now.

        Raises OutOfBlocks where nothing runs here and another engine holds the cache: no step of
        this engine would ever free it.
        """
        admitted: list[Sequence] = []
        places = self._most - sum(1 + sequence.forks for sequence in running)
        while self.waiting:
            head = self.waiting[0]
            needed = self._needed(head.request)
            if head.request.params.n > places or self._pool.promised + needed > self._pool.total:
                break
            admitted.append(self.waiting.popleft())
            self._promised[head.request_id] = needed
            self._pool.promised += needed
            places -= head.request.params.n
        if self.waiting and not admitted and not running:
            needed = self._needed(self.waiting[0].request)
            raise OutOfBlocks(
                f"a request may need {needed} of {self._pool.total} cache blocks and {self._pool.promised} "
                "are promised to other engines on this model; finish or abort theirs"
            )
        return admitted

    def withdraw(self, request_id: int) -> list[Sequence]:
        """Take a request out of the queue."""
        gone = [sequence for sequence in self.waiting if sequence.request_id == request_id]
        self.waiting = deque(sequence for sequence in self.waiting if sequence.request_id != request_id)
        return gone

    def settle(self, running: Series[Sequence]) -> None:
        """Forget the promises to requests of which nothing runs any more."""
        alive = {sequence.request_id for sequence in running}
        for request in [request for request in self._promised if request not in alive]:
            self._pool.promised -= self._promised.pop(request)

"""What processors may know of the past of one choice: its prompt, and its output so far.

    history = History(prompt=[5, 9, 5], vocab=16)
    history.push(7)             # a token was drawn
    history.pop()               # 7; verification looked ahead and comes back
    history.seen_ids            # [5, 9]: what the repetition penalty touches

`push` and `pop` are O(1). The books that penalties need are opened the first time one asks,
so a request without penalties pays for a list and nothing else.

Knows nothing of logits, parameters, stops or drafts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilotfish.errors import BadRequest


class _Books:
    """Distinct ids and their counts, in arrays that grow and shrink like stacks.

    Pushes and pops nest, so the first occurrence of a token is undone only after everything
    pushed later: an id that leaves is always the last one that came.
    """

    __slots__ = ("counts", "ids", "prompt_set", "seen", "size", "slots")

    def __init__(self, prompt_ids: NDArray[np.int64]) -> None:
        self.prompt_set = frozenset(prompt_ids.tolist())
        self.seen = np.concatenate([prompt_ids, np.empty(64, np.int64)])
        self.size = len(prompt_ids)  # how much of `seen` is in use
        self.ids = np.empty(64, np.int64)
        self.counts = np.zeros(64, np.int64)
        self.slots: dict[int, int] = {}  # output id -> its place in `ids` and `counts`

    def fork(self) -> _Books:
        twin = _Books.__new__(_Books)
        twin.prompt_set = self.prompt_set
        twin.size = self.size
        twin.seen, twin.ids, twin.counts = self.seen.copy(), self.ids.copy(), self.counts.copy()
        twin.slots = dict(self.slots)
        return twin

    def push(self, token: int) -> None:
        slot = self.slots.get(token)
        if slot is not None:
            self.counts[slot] += 1
            return
        slot = self.slots[token] = len(self.slots)
        if slot == len(self.ids):
            self.ids = np.concatenate([self.ids, np.empty_like(self.ids)])
            self.counts = np.concatenate([self.counts, np.empty_like(self.counts)])
        self.ids[slot], self.counts[slot] = token, 1
        if token not in self.prompt_set:
            if self.size == len(self.seen):
                self.seen = np.concatenate([self.seen, np.empty_like(self.seen)])
            self.seen[self.size] = token
            self.size += 1

    def pop(self, token: int) -> None:
        slot = self.slots[token]
        self.counts[slot] -= 1
        if self.counts[slot] == 0:
            del self.slots[token]
            if token not in self.prompt_set:
                self.size -= 1


class History:
    """The past of one choice. Push what is drawn, pop what was only looked at."""

    __slots__ = ("_books", "_output", "_prompt", "vocab")

    def __init__(self, prompt: Sequence[int], vocab: int) -> None:
        self.vocab = vocab
        self._prompt = np.array(prompt, dtype=np.int64)
        self._output: list[int] = []
        self._books: _Books | None = None
        if len(self._prompt) and not 0 <= self._prompt.min() <= self._prompt.max() < vocab:
            outside = next(int(token) for token in self._prompt if not 0 <= token < vocab)
            raise BadRequest(f"prompt token {outside} is outside the vocabulary [0, {vocab})")

    @property
    def output_length(self) -> int:
        """How many tokens were pushed and not popped."""
        return len(self._output)

    def push(self, token: int) -> None:
        """A token follows."""
        self._output.append(token)
        if self._books is not None:
            self._books.push(token)

    def pop(self) -> int:
        """Undo the last push; returns its token."""
        token = self._output.pop()
        if self._books is not None:
            self._books.pop(token)
        return token

    def fork(self) -> History:
        """A copy that goes its own way; the prompt is shared."""
        twin = History.__new__(History)
        twin.vocab, twin._prompt = self.vocab, self._prompt
        twin._output = self._output.copy()
        twin._books = None if self._books is None else self._books.fork()
        return twin

    @property
    def seen_ids(self) -> NDArray[np.int64]:
        """The distinct ids of prompt and output, in no order. Valid until the next push or pop."""
        books = self._open()
        return books.seen[: books.size]

    @property
    def output_ids(self) -> NDArray[np.int64]:
        """The distinct ids of the output. Valid until the next push or pop."""
        books = self._open()
        return books.ids[: len(books.slots)]

    @property
    def output_counts(self) -> NDArray[np.int64]:
        """How often each of `output_ids` was pushed. Valid until the next push or pop."""
        books = self._open()
        return books.counts[: len(books.slots)]

    def _open(self) -> _Books:
        if self._books is None:
            self._books = _Books(np.unique(self._prompt))
            for token in self._output:
                self._books.push(token)
        return self._books

"""WorldRunner: a Runner over a table, with a cache that can really be got wrong.

    runner = WorldRunner(MarkovTarget.random(seed=1, vocab=5), context=64, blocks=16, block_size=4)
    runner.forward([Slice(tokens=[1, 2], start=0, blocks=[3], wanted=range(2))]).logits[0]  # [2, 5]

Its cache holds token ids where a model's holds keys and values. A row is computed from what the
block table really leads to, mixed over the whole past, so a wrong table, a stale slot or a copy
that was forgotten shows in the row. As in the CPU runtime, a pass clears the rest of the last
block it writes to.

Knows nothing of sequences, drafts or sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilotfish.model.runner import Output, Slice
from pilotfish.testing.markov import MarkovTarget

UNWRITTEN = -1  # in a slot: nothing has been written since the block was cleared
NO_SLOT = np.nan  # in a row: its past was not in the cache


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What goes wrong on purpose.

    nan_after     a row is all NaN where its past ends with these tokens
    failing_pass  the number of the pass (0 is the first) that raises RuntimeError
    lone_noise    added to every logit of a sequence that brings one token, by its past: what another
                  kernel does
    """

    nan_after: tuple[int, ...] = ()
    failing_pass: int | None = None
    lone_noise: float = 0.0


NO_FAULTS = Faults()


class WorldRunner:
    """A table with a paged cache. `passes` keeps every batch it was given, newest last.

    depends_on_past: how far the whole past moves each logit (0: the table's rows as they are).
    """

    def __init__(
        self,
        target: MarkovTarget,
        *,
        context: int = 64,
        blocks: int = 64,
        block_size: int = 4,
        depends_on_past: float = 0.0,
        faults: Faults = NO_FAULTS,
    ) -> None:
        self.target = target
        self.vocab = target.vocab
        self.context = context
        self.blocks = blocks
        self.block_size = block_size
        self.depends_on_past = depends_on_past
        self.faults = faults
        self.passes: list[list[Slice]] = []
        self._slots = np.full((blocks, block_size), UNWRITTEN, np.int64)

    def row(self, past: Sequence[int]) -> NDArray[np.float32]:
        """[vocab] the logits after these tokens, as an empty cache would give them."""
        row: NDArray[np.float32] = self.target.row(past)
        if self.faults.nan_after and tuple(past[-len(self.faults.nan_after) :]) == self.faults.nan_after:
            return np.full_like(row, np.nan)
        if self.depends_on_past:
            row = row + np.float32(self.depends_on_past) * self._shift(past)
        return row

    def _shift(self, past: Sequence[int]) -> NDArray[np.float32]:
        """[vocab] numbers in [-1, 1] that any change of the past changes."""
        mixed = 0
        for token in past:
            mixed = (mixed * 1_000_003 + token + 1) % 0x7FFFFFFF
        shift: NDArray[np.float64] = np.sin(np.arange(1, self.vocab + 1) * (mixed % 9973))
        return shift.astype(np.float32)

    def forward(self, batch: Sequence[Slice]) -> Output:
        """One pass; refuses what a runtime would read or write out of bounds."""
        number = len(self.passes)
        self.passes.append(
            [Slice(list(part.tokens), part.start, list(part.blocks), part.wanted) for part in batch]
        )
        if number == self.faults.failing_pass:
            raise RuntimeError(f"pass {number} fails on purpose")
        for part in batch:
            self._write(part)
        return Output([self._rows(part) for part in batch])

    def _write(self, part: Slice) -> None:
        end = part.start + len(part.tokens)
        assert part.tokens and part.start >= 0, "a slice needs tokens and a start"
        assert end <= self.context, f"position {end - 1} is past the context of {self.context}"
        assert len(part.blocks) * self.block_size >= end, "the block table is too short"
        assert all(0 <= token < self.vocab for token in part.tokens), "a token outside the vocabulary"
        for position, token in enumerate(part.tokens, part.start):
            block, slot = divmod(position, self.block_size)
            self._slots[part.blocks[block], slot] = token
        last, written = divmod(end - 1, self.block_size)
        self._slots[part.blocks[last], written + 1 :] = UNWRITTEN

    def _rows(self, part: Slice) -> NDArray[np.float32]:
        end = part.start + len(part.tokens)
        past = self._slots[list(part.blocks)].reshape(-1)[:end].tolist()
        rows = np.empty((len(part.wanted), self.vocab), np.float32)
        for index, wanted in enumerate(part.wanted):
            known = past[: part.start + wanted + 1]
            rows[index] = self.row(known) if UNWRITTEN not in known else NO_SLOT
            if len(part.tokens) == 1 and self.faults.lone_noise:
                rows[index] += self.faults.lone_noise * self._shift(known)
        return rows

    def copy_block(self, source: int, destination: int) -> None:
        """Copy one block's tokens onto another."""
        self._slots[destination] = self._slots[source]

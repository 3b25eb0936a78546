"""A bounded table from contexts to ranked next ids, which learns how far its ranks can be trusted.

    table = RankTable(width=8, slots=1 << 16, prior=PRIOR)
    table.store([key], top_ids)               # top_ids: [1, 8]
    table.look(key, 8)                        # [(id, probability), ...] best first, or []
    table.test(key, token)                    # token is what really came: counts, and the row's mark

Every row carries a mark from 0 to 3: one up when its first id was right, one down when it was wrong.
Probabilities are counted per (mark, rank), with a prior and slow forgetting.

Knows nothing of tokens, sequences or drafts; keys are any integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MARKS = 4
FRESH = 1  # the mark of a row that was never tested
PRIOR_WEIGHT = 16.0  # the prior counts as this many tests
MEMORY = 2000.0  # tests after which an old one weighs 1/e


class RankTable:
    """Direct-mapped: a slot keeps the newest row that fell into it, so memory is fixed.

    prior  [mark][rank] probabilities to begin with; ranks beyond it share its last entry
    """

    def __init__(self, width: int, slots: int, prior: Sequence[Sequence[float]]) -> None:
        self.width = width
        self._slots = slots
        self._ids = np.zeros((slots, width), np.int32)
        self._keys = np.full(slots, -1, np.int64)
        self._marks = np.zeros(slots, np.int8)
        self._key_view, self._mark_view = self._keys.data, self._marks.data
        self._hits = [[PRIOR_WEIGHT * row[min(rank, len(row) - 1)] for rank in range(width)] for row in prior]
        self._tests = [PRIOR_WEIGHT] * MARKS
        self._chances = [self._ranked(mark) for mark in range(MARKS)]

    @property
    def nbytes(self) -> int:
        return self._ids.nbytes + self._keys.nbytes + self._marks.nbytes

    def _ranked(self, mark: int) -> list[float]:
        """Probabilities by rank. The order is the target's own: where a rank was right more often
        than the one before it, that is taken for chance."""
        chances = [hits / self._tests[mark] for hits in self._hits[mark]]
        for rank in range(1, self.width):
            chances[rank] = min(chances[rank], chances[rank - 1])
        return chances

    def _slot(self, key: int) -> int:
        # Fibonacci hashing: the low bits of a two-token key would be those of its second token alone.
        return (key * 0x9E3779B97F4A7C15 >> 40) % self._slots

    def look(self, key: int, most: int) -> list[tuple[int, float]]:
        """At most `most` of the ids last stored for a context with their probabilities, best first;
        [] if it is unknown."""
        slot = self._slot(key)
        if self._key_view[slot] != key:
            return []
        ids: list[int] = self._ids[slot, :most].tolist()
        chances = self._chances[self._mark_view[slot]]
        return [(token, chance) for token, chance in zip(ids, chances, strict=False) if token >= 0]

    def test(self, key: int, token: int) -> bool:
        """Learn from what really followed; False when the context is unknown."""
        slot = self._slot(key)
        if self._key_view[slot] != key:
            return False
        mark = self._mark_view[slot]
        ids = self._ids[slot].tolist()
        hits, keep = self._hits[mark], 1.0 - 1.0 / MEMORY
        for rank in range(self.width):
            hits[rank] *= keep
        self._tests[mark] = self._tests[mark] * keep + 1.0
        if token in ids:
            hits[ids.index(token)] += 1.0
        self._chances[mark] = self._ranked(mark)
        right = ids[0] == token
        self._mark_view[slot] = min(mark + 1, MARKS - 1) if right else max(mark - 1, 0)
        return True

    def store(self, keys: Sequence[int], top_ids: np.ndarray) -> None:  # top_ids: [row, rank]
        """Keep the newest row of each context; a context that is new to its slot starts unmarked.

        Rows may hold fewer ids than the table is wide, as of a very small vocabulary."""
        top_ids = top_ids[:, : self.width]
        for key, row in zip(keys, top_ids, strict=True):
            slot = self._slot(key)
            if self._key_view[slot] != key:
                self._key_view[slot] = key
                self._mark_view[slot] = FRESH
                self._ids[slot] = -1
            self._ids[slot, : len(row)] = row

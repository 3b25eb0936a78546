"""Where the last tokens occurred before, in a growing text or in an archive of bounded size.

Both texts are what SuffixDecoding keeps in a tree of counted suffixes, in a flat form: the tokens,
and for each of the last 1, 2 and 4 tokens a chain of earlier places, newest first (the hash chains
of LZ77 compressors). Adding a token costs a few dictionary writes, however long the text is. The
counts of any tree node are the sizes of sets of places, so the tree itself is never built.

    text = Growing()
    text.extend([7, 8, 9, 7, 8])
    list(text.matches([8, 7], cap=32, longest=16))     # [(2, [3])]: tokens[3] followed "7 8"

Knows nothing of sequences, drafts or probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Stands between documents and at both ends of a text. It equals no token that is ever looked up,
# so comparing and walking stop there without range checks.
WALL = -(1 << 31)

KEYED = (1, 2, 4)


def _keys(a: int, b: int, c: int, d: int) -> tuple[int, int, int]:
    """Keys of the last 1, 2 and 4 tokens (d is the newest). A collision costs time, not truth:
    every place found is compared token by token."""
    pair = c * 1_000_003 + d
    return d, pair, (a * 1_000_003 + b) * 998_244_353 + pair


class _Chained:
    """A text with chains of places; `tokens[place]` is what followed there."""

    tokens: Sequence[int]

    def _chain(self, level: int, key: int, cap: int) -> list[int]:
        raise NotImplementedError

    def matches(self, recent: list[int], cap: int, longest: int) -> Iterator[tuple[int, list[int]]]:
        """Places that follow the same last tokens, by match length, longest first.

        `recent` is the context, newest token first. Each item is (match length m, places after the
        last m tokens, newest first). Lengths whose places are those of a longer one are left out.
        At most `cap` places are looked at per chain.
        """
        padded = [*recent[:4], WALL, WALL, WALL, WALL]
        keys = _keys(padded[3], padded[2], padded[1], padded[0])
        longest, size = min(longest, len(recent)), 0
        for level in reversed(range(len(KEYED))):
            least = KEYED[level]
            most = min(2 * least - 1, longest) if level + 1 < len(KEYED) else longest
            places = self._chain(level, keys[level], cap)
            for m, matching in reversed(self._filter(places, recent, least, most)):
                if len(matching) != size:
                    size = len(matching)
                    yield m, matching

    def _filter(
        self, places: list[int], recent: list[int], least: int, most: int
    ) -> list[tuple[int, list[int]]]:
        """The places that match the last m tokens, for each m from `least` to `most`."""
        found: list[tuple[int, list[int]]] = []
        tokens = self.tokens
        for m in range(1, most + 1):
            token = recent[m - 1]
            places = [place for place in places if tokens[place - m] == token]
            if not places:
                break
            if m >= least:
                found.append((m, places))
        return found


class Growing(_Chained):
    """One sequence, from its first token on."""

    def __init__(self) -> None:
        self.tokens: list[int] = [WALL, WALL]
        self._heads: tuple[dict[int, int], ...] = tuple({} for _ in KEYED)
        # _before[level][place]: the next older place with the same key, 0 for none
        self._before: tuple[list[int], ...] = tuple([0, 0] for _ in KEYED)

    def __len__(self) -> int:
        return len(self.tokens) - 2

    def extend(self, tokens: Iterable[int]) -> None:
        """Append tokens. A place enters the chains when its token is known, so the end of the text
        never matches itself."""
        text = self.tokens
        start = len(text) - 1
        text[-1:] = tokens
        text.append(WALL)
        a, b, c, d = ([WALL] * 4 + text[max(start - 4, 0) : start])[-4:]
        head1, head2, head4 = self._heads
        before1, before2, before4 = self._before
        for place in range(start, len(text) - 1):
            key1, key2, key4 = _keys(a, b, c, d)
            before1[-1] = head1.get(key1, 0)
            before2[-1] = head2.get(key2, 0)
            before4[-1] = head4.get(key4, 0)
            head1[key1] = head2[key2] = head4[key4] = place
            before1.append(0)
            before2.append(0)
            before4.append(0)
            a, b, c, d = b, c, d, text[place]

    def recent(self, longest: int) -> list[int]:
        """The last tokens, newest first."""
        return self.tokens[-2 : max(-2 - longest, -len(self.tokens)) : -1]

    def _chain(self, level: int, key: int, cap: int) -> list[int]:
        before = self._before[level]
        places: list[int] = []
        place = self._heads[level].get(key, 0)
        while place and len(places) < cap:
            places.append(place)
            place = before[place]
        return places


class Archive(_Chained):
    """Documents of many sequences in a ring of fixed size: the oldest tokens are overwritten.

    All memory is a few int32/int64 arrays whose size is fixed at construction, so the byte limit
    holds by construction and nothing is hidden in Python objects. Pages are only touched as they
    are used.
    """

    BYTES_PER_TOKEN = 4 + len(KEYED) * (8 + 8)

    def __init__(self, max_bytes: int) -> None:
        self.size = max(max_bytes // self.BYTES_PER_TOKEN, 0)
        shape = (len(KEYED), self.size)
        self._arrays = (np.zeros(self.size, np.int32), np.zeros(shape, np.int64), np.zeros(shape, np.int64))
        tokens, heads, before = self._arrays
        tokens[:1] = WALL
        # Memory views read and write single items about three times as fast as numpy does.
        self.tokens: memoryview[int] = tokens.data
        self._heads = [row.data for row in heads]
        self._before = [row.data for row in before]
        # Places are counted on through the laps; place % size is the slot. Slot 0 stays a wall.
        self._next = 1

    @property
    def nbytes(self) -> int:
        """Bytes held, all told."""
        return sum(array.nbytes for array in self._arrays)

    def add(self, document: Sequence[int]) -> None:
        """Append one document, its tail where it is longer than half of the archive."""
        document = document[-(self.size // 2) :] if self.size > 8 else ()
        if len(document) < 2:
            return
        slot = self._next % self.size
        if slot + len(document) + 1 > self.size:  # it must not wrap in the middle
            self._next += self.size - slot + 1
        text, size, lap = self.tokens, self.size, self._next - self._next % self.size
        heads, before = self._heads, self._before
        a = b = c = d = WALL
        for slot, token in enumerate(document, start=self._next - lap):
            if d != WALL:
                for level, key in enumerate(_keys(a, b, c, d)):
                    bucket = key % size
                    before[level][slot] = heads[level][bucket]
                    heads[level][bucket] = lap + slot
            token = token if 0 <= token < 1 << 31 else WALL
            text[slot] = token
            a, b, c, d = b, c, d, token
        self._next += len(document)
        text[self._next % size] = WALL
        self._next += 1 if (self._next + 1) % size else 2

    def _chain(self, level: int, key: int, cap: int) -> list[int]:
        size = self.size
        if size <= 8:
            return []
        before, oldest = self._before[level], self._next - size
        places: list[int] = []
        place = self._heads[level][key % size]
        # Slots that were overwritten since are the oldest places, so a chain ends before them.
        while place > oldest and place > 0 and len(places) < cap:
            places.append(place % size)
            place = before[place % size]
        return places

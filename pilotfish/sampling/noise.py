"""Keyed noise: random numbers that are looked up, not streamed.

Every number is a pure function of (seed, choice, purpose, round_start, position, token id).
So a draw does not depend on how many draws came before it, on the batch, or on what was
drafted: look at position 900 first and at 3 afterwards, and both are what they always are.

    noise = Noise(seed=7)
    noise.exponentials(np.array([5, 9]), position=12)            # Exp(1), one per id
    noise.uniform(position=12, purpose=Purpose.ACCEPT, round_start=10)

How: the key fields go through splitmix64 finalisers (Steele, Lea and Flood 2014) into 32-bit
keys; a token id goes through "triple32" (Wellons 2018, no key, so a table serves all keys) and
then through two keyed multiply rounds. That is 10 integer passes over the vocabulary per draw.

Knows nothing of logits, laws, processors or sampling parameters.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_HALF, _TINY = np.array(0.5), np.array(2.0**-32)
_LARGEST = np.array(np.nextafter(1.0, 0.0))  # w must not round to 1: its exponential would be infinite


class Purpose(IntEnum):
    """What a number is for. Numbers for different purposes are independent."""

    TARGET = 0  # the coupled draw: the same number whoever asks, and in whichever round
    DRAFT = 1
    ACCEPT = 2
    RESIDUAL = 3


def _mix64(state: int) -> int:
    """The finaliser of splitmix64: a bijection of 64-bit integers."""
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def _absorb(state: int, value: int) -> int:
    """A state that depends on all earlier fields and on `value`; one-to-one in `value`."""
    return _mix64((state * 5 + value * _GOLDEN + 0x632BE59BD9B4E019) & _MASK)


def _word(value: int) -> NDArray[np.uint32]:
    """A 0-d array: numpy computes with it in half the time that a Python number costs."""
    return np.array(value & 0xFFFFFFFF, np.uint32)


_R11, _R14, _R15, _R16, _R17 = (_word(shift) for shift in (11, 14, 15, 16, 17))
_SPREAD = _word(0xED5AD4BB), _word(0xAC4C1B51), _word(0x31848BAB)  # of "triple32"
_KEYED = _word(0x7FEB352D), _word(0x846CA68B)  # of "lowbias32"


def _spread(ids: NDArray[np.integer]) -> NDArray[np.uint32]:
    """Ids made unlike each other: neighbours differ in half their bits. A bijection, no key."""
    x = ids.astype(np.uint32)
    scratch = np.right_shift(x, _R17)
    np.bitwise_xor(x, scratch, out=x)
    for multiplier, shift in zip(_SPREAD, (_R11, _R15, _R14), strict=True):
        np.multiply(x, multiplier, out=x)
        np.right_shift(x, shift, out=scratch)
        np.bitwise_xor(x, scratch, out=x)
    return x


@lru_cache(maxsize=8)
def _spread_all(vocab: int) -> NDArray[np.uint32]:
    """The spread of 0 .. vocab - 1, computed once; read-only because it is shared."""
    table = _spread(np.arange(vocab))
    table.flags.writeable = False
    return table


def _keyed(spread: NDArray[np.uint32], key: int) -> NDArray[np.uint32]:
    """32 random bits per spread id under a 64-bit key; for one key, a bijection of the id."""
    x = np.bitwise_xor(spread, _word(key))
    scratch = np.right_shift(x, _R16)
    np.bitwise_xor(x, scratch, out=x)
    np.multiply(x, _KEYED[0], out=x)
    np.bitwise_xor(x, _word(key >> 32), out=x)  # a second key: else two keys could be shifts of each other
    np.right_shift(x, _R15, out=scratch)
    np.bitwise_xor(x, scratch, out=x)
    np.multiply(x, _KEYED[1], out=x)
    np.right_shift(x, _R16, out=scratch)
    np.bitwise_xor(x, scratch, out=x)
    return x


class Field:
    """The noise of all token ids at one place: 64 bits per id, read as w in (0, 1).

    w = (high * 2^32 + low + 0.5) / 2^64; a small w is a strong number. `high` alone tells
    nearly always who cannot win; ask for `exponentials` only of those who still can.
    """

    __slots__ = ("_high", "_low")

    def __init__(self, state: int) -> None:
        self._high = _mix64(state ^ _GOLDEN)
        self._low = _mix64((state + _GOLDEN) & _MASK)

    def high(self, ids: NDArray[np.integer]) -> NDArray[np.uint32]:
        """The upper 32 bits of each id."""
        return _keyed(_spread(np.asarray(ids)), self._high)

    def high_all(self, vocab: int) -> NDArray[np.uint32]:
        """The upper 32 bits of the ids 0 .. vocab - 1."""
        return _keyed(_spread_all(vocab), self._high)

    def exponentials(self, ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """An Exp(1) number per id, never 0 and never infinite. Its -log is Gumbel noise."""
        spread = _spread(np.asarray(ids))
        w = _keyed(spread, self._low).astype(np.float64)
        np.add(w, _HALF, out=w)
        np.multiply(w, _TINY, out=w)
        np.add(w, _keyed(spread, self._high).astype(np.float64), out=w)
        return _exponential(w)

    @staticmethod
    def weakest(high: NDArray[np.uint32]) -> NDArray[np.float64]:
        """The largest exponentials that numbers with these upper 32 bits can have."""
        return _exponential(high.astype(np.float64) + 1.0)


def _exponential(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """-log(1 - w / 2^32), in place; small w keep all their bits."""
    np.multiply(w, _TINY, out=w)
    np.minimum(w, _LARGEST, out=w)
    np.negative(w, out=w)
    np.log1p(w, out=w)
    return np.negative(w, out=w)


class Noise:
    """All the random numbers of one choice of one request."""

    __slots__ = ("_state", "choice", "seed")

    def __init__(self, seed: int, choice: int = 0) -> None:
        self.seed = seed
        self.choice = choice
        self._state = _absorb(_absorb(0, seed & _MASK), choice)

    def at(self, *, position: int, purpose: int = Purpose.TARGET, round_start: int = 0) -> Field:
        """The noise of all ids at an absolute position.

        `round_start` (the committed length when the round began) keeps apart what two rounds
        draw at one position. TARGET ignores it: coupling wants the same number in every round.
        """
        return Field(self._place(position, purpose, round_start))

    def exponentials(
        self, ids: NDArray[np.integer], *, position: int, purpose: int = Purpose.TARGET, round_start: int = 0
    ) -> NDArray[np.float64]:
        """An Exp(1) number per id; see `at`."""
        return self.at(position=position, purpose=purpose, round_start=round_start).exponentials(ids)

    def uniform(self, *, position: int, purpose: int, round_start: int, index: int = 0) -> float:
        """A number in the open interval (0, 1) that belongs to no id; `index` tells several apart."""
        state = _absorb(self._place(position, purpose, round_start) ^ _MASK, index)
        return ((state >> 12) + 0.5) * 2.0**-52  # 52 bits: with 53 the largest would round to 1

    def _place(self, position: int, purpose: int, round_start: int) -> int:
        if purpose == Purpose.TARGET:
            round_start = 0
        return _absorb(_absorb(self._state, round_start * 8 + purpose), position)

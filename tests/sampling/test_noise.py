"""Is the noise uniform, independent along every field of its key, and the same however asked?

All keys are fixed, so every p-value is too: nothing here can fail by chance on a later day.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pilotfish.sampling import Field, Noise, Purpose
from pilotfish.sampling.noise import _keyed, _spread

VOCAB = 49_152
UNLIKELY = 1e-4  # about 150 p-values are looked at


def low(field: Field, ids: NDArray[np.integer]) -> NDArray[np.uint32]:
    return _keyed(_spread(ids), field._low)


def words(kind: str, positions: range, seed: int = 11) -> NDArray[np.uint32]:
    """[position, vocab] upper or lower words."""
    noise, ids = Noise(seed), np.arange(VOCAB)
    fields = [noise.at(position=position) for position in positions]
    return np.stack([field.high_all(VOCAB) if kind == "high" else low(field, ids) for field in fields])


def uniform_p(numbers: NDArray[np.uint32], shift: int) -> float:
    """The p-value of 256 bins, made of the 8 bits above `shift`."""
    bins = np.bincount(((numbers.ravel() >> np.uint32(shift)) & 255).astype(np.int64), minlength=256)
    return float(stats.chisquare(bins).pvalue)


def joint_p(left: NDArray[np.uint32], right: NDArray[np.uint32], shift: int = 27) -> float:
    """The p-value of joint bins of two streams: of the 5 bits above `shift`, or the bits there are."""
    bins = min(32, 1 << (32 - shift))
    first, second = (
        ((side.ravel() >> np.uint32(shift)) & (bins - 1)).astype(np.int64) for side in (left, right)
    )
    return float(stats.chisquare(np.bincount(first * bins + second, minlength=bins * bins)).pvalue)


def correlation(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> float:
    """In standard deviations of its own sampling error."""
    return float(np.corrcoef(left.ravel(), right.ravel())[0, 1] * np.sqrt(left.size))


@pytest.mark.parametrize("kind", ["high", "low"])
def test_bits_are_uniform(kind: str) -> None:
    numbers = words(kind, range(40))
    for shift in (0, 5, 8, 16, 24):
        assert uniform_p(numbers, shift) > UNLIKELY
    for bit in range(32):
        ones = np.count_nonzero(numbers & np.uint32(1 << bit)) / numbers.size
        assert abs(ones - 0.5) * 2 * np.sqrt(numbers.size) < 4.5


def test_high_and_low_are_independent() -> None:
    high_words, low_words = words("high", range(20)), words("low", range(20))
    assert joint_p(high_words, low_words) > UNLIKELY
    assert joint_p(high_words, low_words, shift=3) > UNLIKELY
    assert abs(correlation(high_words, low_words)) < 4.5


def test_exponentials_are_exponential() -> None:
    noise = Noise(3)
    for position in range(5):
        numbers = noise.exponentials(np.arange(VOCAB), position=position)
        assert stats.kstest(numbers, "expon").pvalue > UNLIKELY
        assert numbers.min() > 0 and np.isfinite(numbers).all()


def test_the_smallest_of_a_vocabulary_is_exponential_too() -> None:
    """The minimum decides draws; it lives where only the upper bits' zeros are looked at."""
    noise = Noise(4)
    least = [noise.at(position=position).high_all(VOCAB).min() for position in range(3000)]
    assert stats.kstest(np.array(least) / 2.0**32 * VOCAB, "expon").pvalue > UNLIKELY


def test_one_id_over_many_positions_is_uniform_and_uncorrelated() -> None:
    noise = Noise(5)
    for token in (0, 1, 40_000):
        ids = np.array([token])
        stream = np.concatenate([noise.at(position=position).high(ids) for position in range(12_000)])
        assert uniform_p(stream, 24) > UNLIKELY
        for lag in (1, 2, 8, 256):
            assert joint_p(stream[:-lag], stream[lag:], 29) > UNLIKELY
            assert abs(correlation(stream[:-lag], stream[lag:])) < 4.5


NEIGHBOURS: dict[str, tuple[Callable[[int], Field], Callable[[int], Field]]] = {
    "positions": (lambda i: Noise(1).at(position=i), lambda i: Noise(1).at(position=i + 1)),
    "positions apart": (lambda i: Noise(1).at(position=i), lambda i: Noise(1).at(position=i + 256)),
    "seeds": (lambda i: Noise(i).at(position=9), lambda i: Noise(i + 1).at(position=9)),
    "high seeds": (lambda i: Noise(i).at(position=9), lambda i: Noise(i + (1 << 63)).at(position=9)),
    "choices": (lambda i: Noise(1, i).at(position=9), lambda i: Noise(1, i + 1).at(position=9)),
    "seed or choice": (lambda i: Noise(i, 70).at(position=9), lambda i: Noise(70, i).at(position=9)),
    "seed or position": (lambda i: Noise(i).at(position=100), lambda i: Noise(100).at(position=i)),
    "purposes": (
        lambda i: Noise(1).at(position=i, purpose=Purpose.DRAFT, round_start=3),
        lambda i: Noise(1).at(position=i, purpose=Purpose.RESIDUAL, round_start=3),
    ),
    "target or draft": (
        lambda i: Noise(1).at(position=i),
        lambda i: Noise(1).at(position=i, purpose=Purpose.DRAFT),
    ),
    "rounds": (
        lambda i: Noise(1).at(position=i + 5, purpose=Purpose.DRAFT, round_start=i),
        lambda i: Noise(1).at(position=i + 5, purpose=Purpose.DRAFT, round_start=i + 1),
    ),
}


@pytest.mark.parametrize("pair", NEIGHBOURS)
def test_neighbouring_keys_are_independent(pair: str) -> None:
    left, right = (
        np.stack([side(index).high_all(VOCAB) for index in range(10)]) for side in NEIGHBOURS[pair]
    )
    assert joint_p(left, right) > UNLIKELY
    assert joint_p(left, right, shift=0) > UNLIKELY
    assert abs(correlation(left, right)) < 4.5
    assert uniform_p(left ^ right, 24) > UNLIKELY and uniform_p(left - right, 24) > UNLIKELY
    assert len(set(left[:, 0]) & set(right[:, 0])) <= 9 * (
        pair in ("positions", "seeds", "choices", "rounds")
    )


@pytest.mark.parametrize("distance", [1, 2, 3, 16, 256, 4096, 32_768])
def test_neighbouring_ids_are_independent(distance: int) -> None:
    numbers = words("high", range(20))
    left, right = numbers[:, :-distance], numbers[:, distance:]
    assert joint_p(left, right) > UNLIKELY
    assert abs(correlation(left, right)) < 4.5
    assert uniform_p(left ^ right, 24) > UNLIKELY and uniform_p(left - right, 24) > UNLIKELY


def flips(left: NDArray[np.uint32], right: NDArray[np.uint32]) -> NDArray[np.float64]:
    """How often each of the 32 output bits changed."""
    bits = np.arange(32, dtype=np.uint32)
    changed: NDArray[np.float64] = (((left ^ right).ravel()[:, None] >> bits) & 1).mean(axis=0)
    return changed


@pytest.mark.parametrize("kind", ["high", "low"])
def test_avalanche(kind: str) -> None:
    """One changed input bit changes each output bit half of the time."""
    ids = np.arange(4096)

    def look(noise: Noise, ids: NDArray[np.integer], position: int) -> NDArray[np.uint32]:
        field = noise.at(position=position)
        return field.high(ids) if kind == "high" else low(field, ids)

    base = np.stack([look(Noise(seed), ids, 77) for seed in range(4)])
    for bit in range(18):
        flipped = np.stack([look(Noise(seed), ids ^ (1 << bit), 77) for seed in range(4)])
        assert abs(flips(base, flipped) - 0.5).max() < 0.02
    for bit in range(20):
        flipped = np.stack([look(Noise(seed), ids, 77 ^ (1 << bit)) for seed in range(4)])
        assert abs(flips(base, flipped) - 0.5).max() < 0.02
    for bit in range(64):
        flipped = np.stack([look(Noise(seed ^ (1 << bit)), ids, 77) for seed in range(4)])
        assert abs(flips(base, flipped) - 0.5).max() < 0.02


def test_one_id_alone_equals_the_id_in_a_batch_bit_for_bit() -> None:
    ids = np.random.default_rng(0).permutation(VOCAB)
    field = Noise(2**64 - 1, 3).at(position=1000)
    batch, high, whole = field.exponentials(ids), field.high(ids), field.high_all(VOCAB)
    for place in range(0, VOCAB, 97):
        one = ids[place : place + 1]
        assert field.exponentials(one).tobytes() == batch[place : place + 1].tobytes()
        assert field.high(one)[0] == high[place] == whole[one[0]]
    for size in (2, 3, 5, 8, 31):
        assert field.exponentials(ids[:size]).tobytes() == batch[:size].tobytes()
    assert field.exponentials(ids.astype(np.int32)).tobytes() == batch.tobytes()


def test_it_is_a_function_of_its_key_alone() -> None:
    ids = np.arange(10)
    noise = Noise(5)
    later = noise.exponentials(ids, position=900)
    noise.exponentials(ids, position=3)
    noise.uniform(position=3, purpose=Purpose.ACCEPT, round_start=0)
    assert np.array_equal(noise.exponentials(ids, position=900), later)
    assert np.array_equal(Noise(5).exponentials(ids, position=900), later)


def test_written_numbers_stay_what_they_are() -> None:
    """A seed that was printed must replay in the next release: change this and old seeds break."""
    assert Noise(7).at(position=12).high(np.array([0, 5, 49_151])).tolist() == [
        847389522,
        2171165142,
        1776820312,
    ]
    assert Noise(7).uniform(position=12, purpose=Purpose.ACCEPT, round_start=10) == 0.304481531188907


def test_only_the_target_ignores_the_round() -> None:
    noise, ids = Noise(5), np.arange(10)
    for purpose in Purpose:
        first = noise.exponentials(ids, position=30, purpose=purpose, round_start=20)
        second = noise.exponentials(ids, position=30, purpose=purpose, round_start=25)
        assert np.array_equal(first, second) == (purpose == Purpose.TARGET)


def test_uniforms_are_uniform_open_and_apart() -> None:
    noise = Noise(8)
    stream = np.array(
        [
            [noise.uniform(position=p, purpose=Purpose.ACCEPT, round_start=0, index=i) for i in range(3)]
            for p in range(8000)
        ]
    )
    assert stream.min() > 0 and stream.max() < 1
    for column in stream.T:
        assert stats.kstest(column, "uniform").pvalue > UNLIKELY
    scaled = (stream * 2**32).astype(np.uint32)
    assert joint_p(scaled[:, 0], scaled[:, 1], 29) > UNLIKELY
    assert joint_p(scaled[:-1, 0], scaled[1:, 0], 29) > UNLIKELY


def test_the_ends_of_the_range_are_finite() -> None:
    ends = np.array([0, 2**32 - 1], np.uint32)
    weakest = Field.weakest(ends)
    assert 0 < weakest[0] < 1e-9 and 36 < weakest[1] < 37

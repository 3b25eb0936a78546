"""The fast draw is the naive draw; its frequencies follow the law; a tail stays a tail."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pilotfish.errors import BadLogits
from pilotfish.sampling import (
    History,
    Noise,
    Purpose,
    SamplingParams,
    Scores,
    draw,
    draw_from_law,
    law,
    process,
)
from pilotfish.sampling.noise import _GOLDEN, _absorb, _spread

from .reference import naive_draw

VOCAB = 49_152
SHAPES = ("flat", "peaked", "two-level", "one alive", "few alive", "wide", "steps", "peak last", "climbing")


def scores_of(values: NDArray[np.float32], ids: NDArray[np.int32] | None = None) -> Scores:
    return Scores(ids=ids, values=values, greedy=False, best=int(values.argmax()))


def row_of(shape: str, size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    row = np.zeros(size, np.float32)
    if shape in ("peaked", "wide", "climbing", "peak last"):
        row = rng.normal(0, {"peaked": 1, "wide": 8, "climbing": 0.1, "peak last": 2}[shape], size).astype(
            np.float32
        )
    if shape == "peaked":
        row[rng.integers(0, size, 4)] += np.float32(14)
    if shape == "two-level":
        row[rng.random(size) < 0.3] = np.float32(5)
    if shape in ("one alive", "few alive"):
        row[:] = -np.inf
        row[rng.integers(0, size, 1 if shape == "one alive" else 5)] = rng.normal()
    if shape == "steps":
        row = np.floor(rng.normal(0, 2, size)).astype(np.float32)
        row[rng.random(size) < 0.1] = -np.inf
        row[0] = 0
    if shape == "peak last":
        row[-1] += np.float32(12)
    if shape == "climbing":
        row += np.linspace(0, 9, size, dtype=np.float32)
    return row


def cases() -> Iterator[tuple[NDArray[np.float32], int]]:
    rng = np.random.default_rng(1)
    for position in range(3000):
        size = int(rng.choice([1, 2, 5, 300, 1024, 1025, 1279, 1280, 1300, 2048, 4097]))
        yield row_of(SHAPES[position % len(SHAPES)], size, rng), position
    for position in range(90):
        yield row_of(SHAPES[position % len(SHAPES)], VOCAB, rng), position


def test_the_fast_draw_is_the_naive_draw() -> None:
    noise = Noise(21)
    for row, position in cases():
        scores = scores_of(row)
        assert draw(scores, noise, position) == naive_draw(scores, noise, position)


def test_the_fast_draw_is_the_naive_draw_of_truncated_scores() -> None:
    rng, noise = np.random.default_rng(2), Noise(22)
    for position in range(300):
        row = row_of(SHAPES[position % len(SHAPES)], 6000, rng)
        params = SamplingParams(
            temperature=0.8, top_p=0.999, min_p=1e-9, top_k=int(rng.choice([0, 3, 1500, 4000]))
        )
        scores = process(row, History([], 6000), params)
        assert draw(scores, noise, position) == naive_draw(scores, noise, position)


def test_a_law_gives_the_token_that_its_scores_give() -> None:
    rng, noise = np.random.default_rng(3), Noise(23)
    for position in range(600):
        size = int(rng.choice([4, 800, 3000]))
        scores = scores_of(row_of(SHAPES[position % len(SHAPES)], size, rng))
        dense = law(scores, size)
        assert draw_from_law(dense, noise, position=position) == draw(scores, noise, position)
        assert draw_from_law(dense * 0.125, noise, position=position) == draw(scores, noise, position)


def test_greedy_draws_the_lowest_best() -> None:
    row = np.array([0, 4, 4, -np.inf], np.float32)
    assert draw(process(row, History([], 4), SamplingParams()), Noise(0), 5) == 1


def test_zero_probability_is_never_drawn() -> None:
    for size in (6, 3000):
        dense = np.zeros(size)
        dense[[1, size - 1]] = 1e-300, 2e-300
        drawn = {
            draw_from_law(dense, Noise(1), position=position, purpose=Purpose.RESIDUAL)
            for position in range(300)
        }
        assert drawn == {1, size - 1}
    with pytest.raises(BadLogits, match="zero everywhere"):
        draw_from_law(np.zeros(5), Noise(1), position=0)


def fits(drawn: list[int], dense: NDArray[np.float64]) -> float:
    """The p-value of the draws under the law, ids with few expected draws taken together."""
    counts, expected = np.bincount(drawn, minlength=len(dense)), dense * len(drawn)
    assert counts[dense == 0].sum() == 0
    rare = expected < 10
    observed, wanted = counts[~rare].astype(float), expected[~rare]
    if expected[rare].sum() > 10:
        observed, wanted = np.append(observed, counts[rare].sum()), np.append(wanted, expected[rare].sum())
    else:
        wanted = wanted * observed.sum() / wanted.sum()
    return 1.0 if len(observed) < 2 else float(stats.chisquare(observed, wanted).pvalue)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("shape", ["flat", "peaked", "two-level", "wide"])
def test_frequencies_follow_the_law(shape: str, temperature: float) -> None:
    row = row_of(shape, 12, np.random.default_rng(4))
    scores = process(row, History([], 12), SamplingParams(temperature=temperature))
    drawn = [draw(scores, Noise(31), position) for position in range(6000)]
    assert fits(drawn, law(scores, 12)) > 1e-4


@pytest.mark.parametrize("purpose", list(Purpose))
def test_frequencies_of_a_law_follow_it(purpose: Purpose) -> None:
    dense = np.array([0.1, 0.0, 0.4, 0.02, 0.48])
    over_positions = [draw_from_law(dense, Noise(1), position=i, purpose=purpose) for i in range(4000)]
    over_seeds = [draw_from_law(dense, Noise(i), position=1, purpose=purpose) for i in range(4000)]
    assert fits(over_positions, dense) > 1e-4
    assert fits(over_seeds, dense) > 1e-4


@pytest.mark.parametrize("shape", ["peaked", "two-level", "climbing"])
def test_frequencies_on_the_fast_path_follow_the_law(shape: str) -> None:
    row = row_of(shape, 2100, np.random.default_rng(5))
    scores = scores_of(row)
    drawn = np.array([draw(scores, Noise(33), position) for position in range(6000)])
    order = np.argsort(np.argsort(-row, kind="stable"))  # neighbours in probability share a bin
    dense = np.bincount(order // 40, weights=law(scores, 2100)).astype(np.float64)
    assert fits((order[drawn] // 40).tolist(), dense) > 1e-4


# ---- The trap, at the real vocabulary size: a tail that holds 1e-9 of the mass in all.

HEAD = np.array([5, 900, 20_000, 40_001, 49_151])
TAIL_MASS = 1e-9


def trap_row() -> NDArray[np.float32]:
    row = np.full(VOCAB, np.log(TAIL_MASS / (VOCAB - len(HEAD))), np.float32)
    row[HEAD] = np.log(1 / len(HEAD))
    return row


def mix64(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser, vectorised."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def high_keys(noise: Noise, positions: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The key of the upper words at each position."""
    absorbed = _absorb(noise._state, 0) * 5 + 0x632BE59BD9B4E019
    states = mix64(positions * np.uint64(_GOLDEN) + np.uint64(absorbed % 2**64))
    return mix64(states ^ np.uint64(_GOLDEN))


def unshift(x: NDArray[np.uint32], shift: int) -> NDArray[np.uint32]:
    """The inverse of x ^= x >> shift, for shifts above 10."""
    return x ^ (x >> np.uint32(shift)) ^ (x >> np.uint32(2 * shift) if shift < 16 else np.uint32(0))


def inverse(multiplier: int) -> np.uint32:
    return np.uint32(pow(multiplier, -1, 2**32))


def ids_of_zero(keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """The one 32-bit id whose upper word is 0, under each key: the noise run backwards."""
    first, second = keys.astype(np.uint32), (keys >> np.uint64(32)).astype(np.uint32)
    x = np.zeros(len(keys), np.uint32)
    x = unshift(unshift(x, 16) * inverse(0x846CA68B), 15) ^ second
    x = unshift(x * inverse(0x7FEB352D), 16) ^ first
    for multiplier, shift in ((0x31848BAB, 14), (0xAC4C1B51, 15), (0xED5AD4BB, 11)):
        x = unshift(x, shift) * inverse(multiplier)
    return unshift(x, 17)


def test_the_noise_run_backwards() -> None:
    noise = Noise(77)
    keys = high_keys(noise, np.arange(200, dtype=np.uint64))
    assert keys.tolist() == [noise.at(position=position)._high for position in range(200)]
    zeros = ids_of_zero(keys)
    for position, token in enumerate(zeros.tolist()):
        assert noise.at(position=position).high(np.array([token])).tolist() == [0]
    assert len(np.unique(_spread(np.arange(2 * VOCAB)))) == 2 * VOCAB  # one-to-one


def test_no_tail_token_in_a_million_draws() -> None:
    """A tail id wins only if its w is below E(best of the head) * p(tail) / p(head).

    E is below 45, so w is below 45 * 2.1e-14 / 0.2 = 4.6e-12: below 2^-32, the upper word is 0. For
    each key exactly one 32-bit id has that word, so running the noise backwards tells, without
    looking at 49,152 ids, at which of the million positions the tail stands any chance. Those
    are drawn in full, and so are the first 2,000.
    """
    assert 45 * (TAIL_MASS / (VOCAB - len(HEAD))) / (1 / len(HEAD)) < 2.0**-32
    noise, scores, head = Noise(78), scores_of(trap_row()), set(HEAD.tolist())
    zeros = ids_of_zero(high_keys(noise, np.arange(1_000_000, dtype=np.uint64)))
    chances = np.flatnonzero(zeros < VOCAB)
    assert 2 <= len(chances) <= 30  # 1e6 * 49,152 / 2^32 = 11 expected: the backwards run does see the ids
    for position in chances.tolist():
        assert noise.at(position=position).high_all(VOCAB).argmin() == zeros[position]
        assert draw(scores, noise, position) in head
    assert {draw(scores, noise, position) for position in range(2000)} == head


def test_float32_uniforms_would_draw_from_the_tail() -> None:
    """What the trap is: with 24-bit uniforms, 0 is common at this size, and 0 beats any law."""
    rng, row, tail, rows = np.random.default_rng(6), trap_row(), 0, 2500
    for _ in range(rows):
        uniforms = rng.random(VOCAB, dtype=np.float32)
        if uniforms.min() > 0:
            continue  # no infinite score; the head wins
        with np.errstate(divide="ignore"):
            winner = (row - np.log(-np.log1p(-uniforms))).argmax()
        tail += int(winner not in HEAD)
    assert 1e6 * tail / rows > 1000

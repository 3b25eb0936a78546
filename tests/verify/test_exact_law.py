"""The law of one round equals the target's, by going through every draft and every decision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pilotfish.sampling import SamplingParams
from pilotfish.testing import MarkovTarget, PlainLaw, round_law

CHAINS: list[tuple[int, ...]] = [(), (1,), (1, 1), (1, 1, 1)]
TREES: list[tuple[int, ...]] = [(2,), (3,), (2, 1), (2, 2), (3, 1)]
SHAPES = [("rejection", widths) for widths in CHAINS + TREES] + [("block", widths) for widths in CHAINS]


def draft_table(kind: str, target: MarkovTarget) -> MarkovTarget:
    """A draft's table, unlike or like the target's."""
    if kind == "equal":
        return target
    if kind == "one-hot":
        return MarkovTarget.from_laws(np.roll(np.eye(target.vocab), 1, axis=1), order=1)
    return MarkovTarget.random(seed=7, vocab=target.vocab, order=1, zeros=0.2)


def largest_difference(one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float]) -> float:
    return max(abs(one.get(output, 0.0) - other.get(output, 0.0)) for output in one.keys() | other.keys())


@pytest.mark.parametrize("table", ["random", "equal", "one-hot"])
@pytest.mark.parametrize(("kind", "widths"), SHAPES)
def test_round_has_the_targets_law(
    setting: dict[str, Any], kind: str, widths: tuple[int, ...], table: str
) -> None:
    target = MarkovTarget.random(seed=3, vocab=3, order=1, spread=1.0)
    params = SamplingParams(max_tokens=50, **setting)
    plain = PlainLaw(target, params, prompt=[1, 0])
    written = round_law(plain, draft_table(table, target), widths, kind, before=(2, 0))
    length = 2 + len(widths) + 1
    expected = plain.complete({(2, 0): 1.0}, length)
    assert largest_difference(plain.complete(written, length), expected) < 1e-12


@pytest.mark.parametrize(
    ("kind", "widths"), [("rejection", (1, 1)), ("rejection", (2, 2)), ("block", (1, 1, 1))]
)
def test_disjoint_supports(kind: str, widths: tuple[int, ...]) -> None:
    target = MarkovTarget.fixed([0.25, 0.75, 0.0, 0.0])
    table = MarkovTarget.fixed([0.0, 0.0, 0.5, 0.5])
    plain = PlainLaw(target, SamplingParams(max_tokens=50, temperature=1.0), prompt=[0])
    written = round_law(plain, table, widths, kind)
    assert {len(output) for output in written} == {1}
    assert largest_difference(written, plain.outputs(1)) < 1e-12


@pytest.mark.parametrize(
    ("kind", "widths"), [("rejection", (3, 2)), ("rejection", (1, 1, 1)), ("block", (1, 1, 1))]
)
def test_wide_and_deep(kind: str, widths: tuple[int, ...]) -> None:
    vocab = 4 if len(widths) == 3 else 3
    target = MarkovTarget.random(seed=11, vocab=vocab, order=2)
    table = MarkovTarget.random(seed=12, vocab=vocab, order=1)
    plain = PlainLaw(target, SamplingParams(max_tokens=50, temperature=1.0), prompt=[1, 2])
    length = len(widths) + 1
    written = plain.complete(round_law(plain, table, widths, kind), length)
    assert largest_difference(written, plain.outputs(length)) < 1e-12


@pytest.mark.parametrize(("kind", "widths"), SHAPES)
@pytest.mark.parametrize("ends", [{"max_tokens": 2}, {"stop_ids": {1}, "min_tokens": 1}])
def test_an_end_inside_the_draft(kind: str, widths: tuple[int, ...], ends: dict[str, Any]) -> None:
    target = MarkovTarget.random(seed=5, vocab=3, order=1)
    params = SamplingParams(temperature=1.0, **ends)
    plain = PlainLaw(target, params, prompt=[0], eos_ids={2})
    written = round_law(plain, MarkovTarget.random(seed=6, vocab=3), widths, kind)
    length = len(widths) + 1
    assert largest_difference(plain.complete(written, length), plain.outputs(length)) < 1e-12


@pytest.mark.parametrize("kind", ["rejection", "block"])
def test_equal_laws_accept_everything(setting: dict[str, Any], kind: str) -> None:
    target = MarkovTarget.random(seed=3, vocab=3, order=1)
    plain = PlainLaw(target, SamplingParams(max_tokens=50, **setting), prompt=[1])
    written = round_law(plain, target, (1, 1), kind)
    accepted = sum(probability * (len(output) - 1) for output, probability in written.items())
    assert accepted == pytest.approx(2.0, abs=1e-12)


def test_block_accepts_more_than_token_by_token() -> None:
    """The example of Sun et al. 2024: 10/9 accepted token by token, 11/9 as a block."""
    plain = PlainLaw(
        MarkovTarget.fixed([1 / 3, 2 / 3]), SamplingParams(max_tokens=50, temperature=1.0), prompt=[0]
    )
    table = MarkovTarget.fixed([2 / 3, 1 / 3])

    def accepted(kind: str) -> float:
        written = round_law(plain, table, (1, 1), kind)
        return sum(probability * (len(output) - 1) for output, probability in written.items())

    assert accepted("rejection") == pytest.approx(10 / 9, abs=1e-6)  # the table is float32
    assert accepted("block") == pytest.approx(11 / 9, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_block_never_accepts_less(seed: int) -> None:
    target = MarkovTarget.random(seed=seed, vocab=3, order=1)
    table = MarkovTarget.random(seed=seed + 100, vocab=3, order=1)
    plain = PlainLaw(target, SamplingParams(max_tokens=50, temperature=1.0), prompt=[0])
    token, block = (
        sum(p * len(output) for output, p in round_law(plain, table, (1, 1, 1), kind).items())
        for kind in ("rejection", "block")
    )
    assert block >= token - 1e-12

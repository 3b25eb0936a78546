"""Rotary: the published rules, at their landmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pilotfish.model.rotary import Rotary, yarn_magnitude

PLAIN = Rotary(theta=1e4).inverse(64)


def test_plain_angles_fall_geometrically() -> None:
    assert PLAIN.dtype == np.float32 and PLAIN[0] == 1
    assert np.allclose(PLAIN[1:] / PLAIN[:-1], 1e4 ** (-1 / 32))


def test_linear_slows_all() -> None:
    assert np.array_equal(Rotary(theta=1e4, kind="linear", factor=4).inverse(64), PLAIN / np.float32(4))


def test_llama3_keeps_fast_pairs_and_slows_slow_ones() -> None:
    rotary = Rotary(theta=1e4, kind="llama3", factor=8, original=256, low=1, high=4)
    found, turns = rotary.inverse(64), 256 * PLAIN / (2 * math.pi)
    assert np.allclose(found[turns > 4], PLAIN[turns > 4]) and (turns > 4).any()
    assert np.allclose(found[turns < 1], PLAIN[turns < 1] / 8) and (turns < 1).any()
    between = (turns > 1) & (turns < 4)
    assert between.any() and (found[between] < PLAIN[between]).all()
    assert (found[between] > PLAIN[between] / 8).all()


def test_yarn_fades_between_its_two_pairs() -> None:
    """arXiv 2309.00071: pairs of more than beta_fast turns are kept, of fewer than beta_slow slowed."""
    rotary = Rotary(theta=1e4, kind="yarn", factor=4, original=4096, magnitude=yarn_magnitude(4))
    found, turns = rotary.inverse(64), 4096 * PLAIN / (2 * math.pi)
    assert np.allclose(found[turns > 40], PLAIN[turns > 40])
    assert np.allclose(found[turns < 0.7], PLAIN[turns < 0.7] / 4)
    assert rotary.magnitude == pytest.approx(0.1 * math.log(4) + 1)
    assert yarn_magnitude(0.5) == 1


def test_a_files_own_table() -> None:
    divisors = tuple(float(pair + 1) for pair in range(32))
    assert np.allclose(Rotary(theta=1e4, divisors=divisors).inverse(64), PLAIN / np.array(divisors))


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"theta": -1.0}, "rope_theta"),
        ({"theta": math.inf}, "rope_theta"),
        ({"theta": 1e300}, "rope_theta"),
        ({"theta": 1.0, "kind": "yarn", "factor": 2.0, "original": 8}, "more than 1"),
        ({"theta": 1e4, "kind": "yarn", "factor": 2.0, "original": 8, "high": 1e308}, "high"),
        ({"theta": 1e4, "kind": "yarn", "factor": 2.0, "original": 10**400}, "original context"),
        ({"theta": 1e4, "divisors": (1.0, 0.0)}, "divisor"),
        ({"theta": 1e4, "kind": "linear", "factor": 0.0}, "factor"),
        ({"theta": 1e4, "kind": "yarn", "factor": 2.0}, "original context"),
        ({"theta": 1e4, "kind": "llama3", "factor": 2.0, "original": 8, "low": 4.0, "high": 4.0}, "no range"),
    ],
)
def test_impossible_numbers_are_named(settings: dict[str, object], named: str) -> None:
    assert named in (Rotary(**settings).problem() or "")  # type: ignore[arg-type]


def test_possible_numbers_are_no_problem() -> None:
    assert Rotary(theta=1e4, kind="yarn", factor=4, original=4096).problem() is None

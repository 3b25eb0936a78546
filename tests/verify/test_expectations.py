"""The formulas against the numbers of Leviathan et al. 2023 and against the rules themselves."""

from __future__ import annotations

import numpy as np
import pytest

from pilotfish.verify.expectations import (
    best_draft_length,
    expected_tokens,
    improvement,
    operations_factor,
    overlap,
)
from pilotfish.verify.rejection import acceptance


@pytest.mark.parametrize(
    ("rate", "length", "operations", "speed"),
    [
        (0.6, 2, 1.53, 1.96),
        (0.7, 3, 1.58, 2.53),
        (0.8, 2, 1.23, 2.44),
        (0.8, 5, 1.63, 3.69),
        (0.9, 2, 1.11, 2.71),
        (0.9, 10, 1.60, 6.86),
    ],
)
def test_table_1_of_leviathan(rate: float, length: int, operations: float, speed: float) -> None:
    """A draft that costs nothing: the speed is the number of tokens a round."""
    assert round(operations_factor(rate, draft_length=length), 2) == operations
    assert round(improvement(rate, draft_length=length), 2) == speed
    assert round(expected_tokens(rate, draft_length=length), 2) == speed


def test_the_ends_of_the_range() -> None:
    assert expected_tokens(1.0, draft_length=4) == 5.0
    assert expected_tokens(0.0, draft_length=4) == 1.0
    assert improvement(0.5, draft_length=0, draft_cost=9.0) == 1.0


def test_speculation_helps_only_above_the_draft_cost() -> None:
    """Leviathan et al. 2023, corollary 3.9: some length helps exactly when acceptance exceeds cost."""
    assert best_draft_length(0.3, draft_cost=0.31, longest=20) == 0
    assert best_draft_length(0.3, draft_cost=0.29, longest=20) == 1
    assert improvement(0.3, draft_length=1, draft_cost=0.29) >= 1.3 / 1.29 - 1e-12
    assert best_draft_length(0.8, draft_cost=0.05, longest=20) == 8


def test_a_cost_curve_with_a_cliff_is_not_stepped_onto() -> None:
    def cliff(rows: int) -> float:
        return 1.0 if rows <= 4 else 3.0

    assert best_draft_length(0.9, verification_cost=cliff, longest=6) == 3
    assert best_draft_length(0.9, verification_cost=lambda rows: float(rows), longest=6) == 0


def test_overlap_is_one_minus_total_variation_and_the_mean_acceptance() -> None:
    generator = np.random.default_rng(0)
    target_law, draft_law = generator.dirichlet(np.ones(6), size=2)
    total_variation = 0.5 * float(np.abs(target_law - draft_law).sum())
    mean = sum(draft_law[token] * acceptance(target_law, draft_law, token) for token in range(6))
    assert overlap(target_law, draft_law) == pytest.approx(1.0 - total_variation, abs=1e-12)
    assert overlap(target_law, draft_law) == pytest.approx(mean, abs=1e-12)

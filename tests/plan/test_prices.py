"""Prices: what passes take corrects what was measured at start."""

from __future__ import annotations

import pytest

from pilotfish.draft import EMPTY, Draft
from pilotfish.model.steptimes import StepTimes
from pilotfish.plan.planner import Planner
from pilotfish.plan.prices import MOST, Prices

STEPS = StepTimes({1: 1.0, 2: 1.0, 4: 1.1, 8: 2.0})


def test_nothing_learned_is_what_was_measured() -> None:
    prices = Prices(STEPS)
    assert [prices.seconds(rows, alone=True) for rows in (1, 4, 8)] == [1.0, 1.1, 2.0]


def test_a_row_count_has_its_own_factor_and_others_that_of_all() -> None:
    prices = Prices(STEPS)
    for _ in range(200):
        prices.learn(2, 1.2, alone=True)
        prices.learn(4, 2.2, alone=True)
    assert prices.seconds(2, alone=True) == pytest.approx(1.2, rel=0.01)
    assert prices.seconds(4, alone=True) == pytest.approx(2.2, rel=0.01)
    assert 2.0 * 1.2 < prices.seconds(8, alone=True) < 2.0 * 2.0
    assert prices.seconds(4, alone=False) == 1.1  # several sequences are another matter


def test_a_hiccup_moves_a_factor_little() -> None:
    prices = Prices(STEPS)
    prices.learn(2, 100.0, alone=True)
    assert prices.seconds(2, alone=True) <= 1.0 + 0.051 * MOST


def test_the_planner_stops_paying_for_rows_that_turn_out_dear() -> None:
    planner = Planner(StepTimes({1: 1.0, 4: 1.05}, ready=(1, 4)))
    draft = Draft.chain([1, 2, 3], source="x", survival=[0.3, 0.1, 0.05])

    def rows() -> int:
        planner.cut([draft], read=[1], other_rows=0, room=99)
        return planner.rows

    def plain() -> None:
        planner.cut([EMPTY], read=[1], other_rows=0, room=99)
        planner.took(1, 1.0)

    assert rows() == 4  # as measured: a twentieth more for 0.45 tokens
    for _ in range(60):
        rows()
        planner.took(planner.rows, 1.0 if planner.rows == 1 else 2.0)
        plain()
    assert rows() == 1
    planner.took(7, 0.001)  # not the pass that was planned: says nothing
    assert rows() == 1

"""Step times: a table read between its entries, measured within the runner's bounds."""

from __future__ import annotations

import pytest

from pilotfish.model.runner import NUMERIC, Form
from pilotfish.model.steptimes import ROWS, StepTimes, measure
from pilotfish.testing import MarkovTarget, WorldRunner


def test_between_before_and_beyond_the_entries() -> None:
    steps = StepTimes({4: 2.0, 2: 1.0, 8: 2.0})
    assert [steps.seconds(rows) for rows in (1, 2, 3, 4, 6, 8)] == [1.0, 1.0, 1.5, 2.0, 2.0, 2.0]
    assert steps.seconds(12) == 3.0  # in proportion


@pytest.mark.parametrize(
    ("context", "form", "counts"),
    [
        (1024, NUMERIC, ROWS),
        (1024, Form(min_tokens=2, max_rows=8, bitwise=True), (2, 3, 4, 5, 6, 7, 8)),
        (10, NUMERIC, (1, 2, 3, 4, 5)),
    ],
)
def test_measuring(context: int, form: Form, counts: tuple[int, ...]) -> None:
    runner = WorldRunner(MarkovTarget.random(seed=1), context=context, blocks=40, block_size=32)
    steps = measure(runner, form, repeats=1)
    assert tuple(steps.table) == counts and min(steps.table.values()) > 0

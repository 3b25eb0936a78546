"""Where two texts part, and the law of ties."""

from __future__ import annotations

import numpy as np
import pytest

from pilotfish.audit.compare import differing, explained, first_difference, score_gap
from pilotfish.sampling import History, Noise, SamplingParams, draw, process

ROW = np.array([1.0, 3.0, 2.9, 0.0, -1.0], np.float32)
FIELD = Noise(3).at(position=2)


@pytest.mark.parametrize(
    ("output", "place", "count"),
    [
        ([1, 2, 3], None, 0),
        ([1, 9, 3], 1, 1),
        ([1, 2], 2, 1),
        ([], 0, 3),
        ([1, 2, 3, 4], 3, 1),
        ([1, 9, 9, 9], 1, 3),
    ],
)
def test_where_and_how_much_texts_differ(output: list[int], place: int | None, count: int) -> None:
    assert first_difference([1, 2, 3], output) == place
    assert differing([1, 2, 3], output) == count


@pytest.mark.parametrize(("noise", "tie"), [(0.06, True), (0.04, False), (0.0, False)])
def test_greedy_a_tie_is_a_gap_of_at_most_twice_the_noise(noise: float, tie: bool) -> None:
    found = explained(ROW, History([0], 5), SamplingParams(), (1, 2), field=FIELD, noise=noise)
    assert found is tie


def test_equal_logits_are_a_tie_even_without_noise() -> None:
    row = np.array([0.0, 2.0, 2.0], np.float32)
    assert explained(row, History([0], 3), SamplingParams(), (1, 2), field=FIELD, noise=0.0)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampled_the_gap_is_what_a_logit_must_move_for_the_draw_to_flip(temperature: float) -> None:
    params, history, noise = SamplingParams(temperature=temperature), History([0], 5), Noise(11)
    for position in range(20):
        winner = draw(process(ROW, history, params), noise, position)
        for other in set(range(5)) - {winner}:
            gap = score_gap(ROW, history, params, (winner, other), field=noise.at(position=position))
            for step, flips in ((-1e-3, False), (1e-3, True)):
                moved = ROW.copy()
                moved[other] += gap + step
                assert (draw(process(moved, history, params), noise, position) == other) is flips


def test_penalties_count_in_the_gap() -> None:
    params, history = SamplingParams(presence_penalty=1.0), History([0], 5)
    history.push(1)
    assert score_gap(ROW, history, params, (1, 2), field=FIELD) == pytest.approx(0.9, abs=1e-5)


def test_a_token_on_the_edge_of_truncation_is_a_tie_and_one_far_beyond_is_not() -> None:
    params, history = SamplingParams(temperature=1.0, top_k=2), History([0], 5)
    row = np.array([2.0, 8.0, 1.99, -5.0, -9.0], np.float32)
    # Token 0 is the last one kept; 2 is nearly as good: either may be the one that is kept.
    noise = Noise(1).at(position=4)
    assert explained(row, history, params, (1, 2), field=noise, noise=0.01)
    assert not explained(row, history, params, (1, 3), field=noise, noise=0.01)

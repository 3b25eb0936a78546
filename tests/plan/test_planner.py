"""The planner: nodes are verified where they pay, in the order of their survival."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.draft import EMPTY, ROOT, Draft
from pilotfish.model.steptimes import StepTimes
from pilotfish.plan.planner import MOST_NODES, Planner, best_chain

FLAT = StepTimes({1: 1.0, 32: 1.0})
LINEAR = StepTimes({rows: float(rows) for rows in range(1, 33)})
CLIFF = StepTimes({1: 1.0, 4: 1.0, 5: 2.0, 8: 2.0, 9: 4.0})  # free up to 4 rows, twice the price to 8


def chain(*survival: float) -> Draft:
    return Draft.chain(range(len(survival)), source="x", survival=survival)


def cut(
    planner: Planner, *drafts: Draft, read: list[int] | None = None, other: int = 0, room: int = 99
) -> list[int]:
    kept = planner.cut(drafts, read=read or [1] * len(drafts), other_rows=other, room=room)
    for draft, part in zip(drafts, kept, strict=True):
        assert part.tokens == draft.tokens[: len(part)]
    return [len(part) for part in kept]


@pytest.mark.parametrize(
    ("survival", "steps", "nodes"),
    [
        ((0.9, 0.8, 0.7), FLAT, 3),
        ((0.9, 0.8, 0.7), LINEAR, 0),  # a row costs as much as a token
        ((0.9, 0.8, 0.7, 0.6, 0.5), CLIFF, 3),  # up to the cliff
        ((0.99, 0.98, 0.97, 0.96, 0.95, 0.94, 0.93), CLIFF, 3),  # 7.7 for 2.0 is less than 3.94 for 1.0
        ((0.05, 0.04, 0.03, 0.9), CLIFF, 3),  # free rows are taken, however unlikely
        ((), FLAT, 0),
        ((0.5,), StepTimes({1: 1.0, 2: 1.6}), 0),
        ((0.7,), StepTimes({1: 1.0, 2: 1.6}), 1),
        (
            (0.2, 0.19, 0.18, 0.17, 0.16, 0.15, 0.14),
            StepTimes({1: 1.0, 2: 1.5, 8: 1.5}),
            7,
        ),  # a step that pays whole
    ],
)
def test_one_sequence_on_staircases(survival: tuple[float, ...], steps: StepTimes, nodes: int) -> None:
    assert cut(Planner(steps), chain(*survival)) == [nodes]


def test_a_cliff_is_crossed_where_enough_waits_behind_it() -> None:
    steps = StepTimes({1: 1.0, 2: 1.0, 3: 1.4, 8: 1.4})
    assert cut(Planner(steps), chain(0.9, 0.85, 0.8, 0.75, 0.7)) == [5]
    assert cut(Planner(steps), chain(0.9, 0.3, 0.1, 0.05, 0.02)) == [1]


def test_pads_are_free() -> None:
    planner = Planner(LINEAR, min_tokens=2)
    assert cut(planner, chain(0.1, 0.09), chain(0.01)) == [1, 1]
    assert cut(planner, chain(0.4, 0.3), read=[2]) == [0]
    assert cut(planner, EMPTY, chain(0.3)) == [0, 1]
    assert cut(planner, chain(0.1, 0.09), room=2) == [1]


def test_room_is_respected_and_shared_by_survival() -> None:
    planner = Planner(FLAT)
    assert cut(planner, chain(0.9, 0.5, 0.4), chain(0.8, 0.7, 0.1), room=5) == [1, 2]
    assert cut(planner, chain(0.9, 0.5), chain(0.8), room=2) == [0, 0]
    assert cut(Planner(None), chain(0.9, 0.5), chain(0.8), room=4) == [1, 1]
    # a node is worth no more than what leads to it
    assert cut(planner, chain(0.2, 0.9), chain(0.5), room=3) == [0, 1]
    assert cut(Planner(FLAT, length=2), chain(0.9, 0.5, 0.2), room=2) == [1]


def test_rows_of_others_move_the_pass_along_the_staircase() -> None:
    assert cut(Planner(CLIFF), chain(0.9, 0.8, 0.7), other=2) == [1]
    assert cut(Planner(CLIFF), chain(0.9, 0.8, 0.7), other=5) == [2]


def test_a_fixed_length_is_not_priced() -> None:
    for length in range(6):
        planner = Planner(LINEAR, length=length)
        assert planner.budget == length
        assert cut(planner, chain(*[0.01] * 4)) == [min(length, 4)]
    assert Planner(LINEAR).budget == MOST_NODES
    assert cut(Planner(LINEAR, length=0, min_tokens=2), chain(0.9)) == [0]


def laws(count: int) -> Draft:
    law = np.full(4, 0.25)
    return Draft.chain([0] * count, source="x", survival=[0.01] * count, laws=[law] * count)


def test_sampled_drafts_are_only_cut_for_room_and_all_at_one_depth() -> None:
    assert cut(Planner(LINEAR), laws(3), laws(5)) == [3, 5]
    assert cut(Planner(LINEAR, length=2), laws(3), laws(1)) == [2, 1]
    # By room alone: the depth does not depend on how long the drafts happened to be.
    assert cut(Planner(LINEAR), laws(3), laws(9), room=8) == [3, 3]
    assert cut(Planner(LINEAR), laws(1), laws(9), room=8) == [1, 3]
    assert cut(Planner(FLAT), laws(9), chain(0.9, 0.9), room=7) == [5, 0]


def test_best_chain_of_a_tree() -> None:
    tree = Draft(
        tokens=(1, 2, 3, 4, 5),
        parents=(ROOT, ROOT, 0, 1, 3),
        sources=("a", "b", "a", "b", "b"),
        match_lengths=(0,) * 5,
        survival=(0.5, 0.4, 0.2, 0.3, 0.2),
    )
    assert best_chain(tree).tokens == (2, 4, 5) and best_chain(tree).is_chain  # 0.9 against 0.7
    assert best_chain(tree).survival == (0.4, 0.3, 0.2)
    straight = chain(0.5, 0.2)
    assert best_chain(straight) is straight and best_chain(EMPTY) is EMPTY
    [kept] = Planner(FLAT).cut([tree], read=[1], other_rows=0, room=99)
    assert kept.tokens == (2, 4, 5)


SURVIVALS = st.lists(st.floats(0.01, 0.99), max_size=4).map(lambda found: sorted(found, reverse=True))


@given(
    st.lists(st.tuples(SURVIVALS, st.integers(1, 3)), min_size=1, max_size=3),
    st.lists(st.floats(0.0, 2.0), min_size=24, max_size=24),
    st.integers(1, 3),
    st.integers(0, 4),
    st.integers(0, 6),
)
def test_goodput_is_the_best_of_all_cuts(
    sequences: list[tuple[list[float], int]], increments: list[float], least: int, other: int, spare: int
) -> None:
    """Against brute force over every number of nodes of every sequence."""
    steps = StepTimes(dict(enumerate(1.0 + np.cumsum(increments), 1)))
    chains, read = [chain(*survival) for survival, _ in sequences], [count for _, count in sequences]
    room = sum(max(least, count) for count in read) + spare

    def goodput(nodes: tuple[int, ...]) -> float:
        rows = sum(max(least, count + kept) for count, kept in zip(read, nodes, strict=True))
        if rows > room:
            return 0.0
        expected = len(nodes) + sum(sum(s[:kept]) for (s, _), kept in zip(sequences, nodes, strict=True))
        return expected / steps.seconds(rows + other)

    best = max(map(goodput, product(*(range(len(survival) + 1) for survival, _ in sequences))))
    kept = cut(Planner(steps, min_tokens=least), *chains, read=read, other=other, room=room)
    assert goodput(tuple(kept)) == pytest.approx(best)


def rows_of(planner: Planner, *drafts: Draft, other: int = 0) -> int:
    planner.cut(drafts, read=[1] * len(drafts), other_rows=other, room=99)
    return planner.rows


SURE, POOR = chain(0.9, 0.85, 0.8), chain(0.02, 0.01, 0.01)
TABLE = {1: 1.0, 2: 1.3, 4: 1.6, 8: 3.0}


def test_a_row_count_is_kept_until_the_loss_adds_up_to_a_switch() -> None:
    planner = Planner(StepTimes(TABLE, switch=1.0))
    assert rows_of(planner, SURE) == 4
    found = [rows_of(planner, POOR) for _ in range(4)]
    # Four rows cost 0.6 more than the one that is best now: at the second pass that is worth a switch.
    assert found == [4, 1, 1, 1]
    assert rows_of(Planner(StepTimes(TABLE)), SURE) == 4


def test_row_counts_with_graphs_of_their_own_cost_no_switch() -> None:
    planner = Planner(StepTimes(TABLE, switch=100.0, ready=(1, 4)))
    assert [rows_of(planner, draft) for draft in (SURE, POOR, SURE, POOR)] == [4, 1, 4, 1]
    # Two nodes are padded to the four rows that are ready, whichever row count was last.
    assert rows_of(planner, chain(0.9, 0.85)) == 4


def test_graphs_for_one_sequence_do_not_help_several() -> None:
    planner = Planner(StepTimes(TABLE, switch=100.0, ready=(1, 2, 4)))
    assert rows_of(planner, EMPTY, EMPTY, EMPTY) == 3  # the first of all: whatever it costs
    assert rows_of(planner, SURE, EMPTY, EMPTY) == 3  # kept, though 4 would be ready for one alone
    assert rows_of(planner, SURE) == 4
    assert rows_of(planner, SURE, EMPTY, EMPTY) == 3  # the general graph still has the rows it had


def test_a_fixed_length_is_padded_but_never_cut_to_what_is_ready() -> None:
    planner = Planner(StepTimes(TABLE, switch=100.0, ready=(4,)), length=2)
    [kept] = planner.cut([SURE], read=[1], other_rows=0, room=99)
    assert len(kept) == 2 and planner.rows == 4
    planner = Planner(StepTimes(TABLE, switch=100.0, ready=(2,)), length=2)
    [kept] = planner.cut([SURE], read=[1], other_rows=0, room=99)
    assert len(kept) == 2 and planner.rows == 3

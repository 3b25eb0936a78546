from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from propose_worlds import Target, Text

from pilotfish.draft import EMPTY, ROOT, Draft, Verdict
from pilotfish.errors import BadRequest
from pilotfish.propose import Observation
from pilotfish.propose.ranks import FRESH, RankTable
from pilotfish.propose.recycle import Recycle


def plain(tokens: list[int], top: list[int]) -> Observation:
    """A round without a draft that wrote the last of these tokens."""
    rows = np.array([top])
    return Observation(Text(tokens), EMPTY, Verdict((), tokens[-1]), np.array([tokens[-2]]), rows)


def test_drafts_what_the_target_ranked_first() -> None:
    proposer = Recycle(width=2)
    proposer.observe([plain([1, 2, 3], [3, 9]), plain([2, 3, 4], [4, 8])])
    [draft] = proposer.propose([Text([0, 1, 2])], 2)
    assert draft.tokens == (3, 4)
    assert draft.match_lengths == (2, 2)
    assert draft.survival[0] > draft.survival[1]


def test_two_tokens_of_context_beat_one() -> None:
    proposer = Recycle(width=1)
    proposer.observe([plain([1, 2, 3], [3]), plain([5, 2, 4], [4])])
    known = [(g.token, g.match_length) for g in proposer.extend((1, 2))]
    fallback = [(g.token, g.match_length) for g in proposer.extend((6, 2))]
    assert known == [(3, 2)]
    assert fallback == [(4, 1)]
    assert proposer.extend((2,))[0].match_length == 1
    assert proposer.extend(()) == []


def test_rejected_rows_are_learned_from() -> None:
    proposer = Recycle(width=1)
    draft = Draft.chain([7, 8], source="ngram")
    rows = np.array([[3], [20], [30]])
    text = Text([1, 2, 3])
    proposer.observe([Observation(text, draft, Verdict((), 3), np.array([2, 7, 8]), rows)])
    assert proposer.extend((2, 7))[0].token == 20
    assert proposer.extend((7, 8))[0].token == 30


def test_trees_are_best_first_and_chains_are_chains() -> None:
    observations = [plain([1, 2, 3], [3, 4, 5]), plain([2, 3, 6], [6, 7, 8])]
    tree, chain = Recycle(width=3, trees=True), Recycle(width=3)
    for proposer in (tree, chain):
        proposer.observe(observations)
    [branching] = tree.propose([Text([1, 2])], 5)
    [straight] = chain.propose([Text([1, 2])], 5)
    assert list(branching.survival) == sorted(branching.survival, reverse=True)
    assert len(branching.children(ROOT)) > 1
    assert straight.tokens == (3, 6)
    assert straight.is_chain


def test_ranks_learn_how_far_to_trust() -> None:
    table = RankTable(2, 64, [(0.5, 0.2)] * 4)
    table.store([1], np.array([[10, 11]]))
    assert table._marks[table._slot(1)] == FRESH
    for _ in range(300):
        assert table.test(1, 11)
    [(first, low), (second, capped)] = table.look(1, 2)
    assert (first, second) == (10, 11)
    assert low < 0.05
    assert capped <= low  # a later rank is never believed to be likelier
    for _ in range(5):
        table.test(1, 10)
    assert table._marks[table._slot(1)] == 3


def test_a_new_context_in_an_old_slot_starts_unmarked() -> None:
    table = RankTable(1, 1, [(0.5,)] * 4)
    table.store([1], np.array([[10]]))
    table.test(1, 10)
    table.store([2], np.array([[20]]))
    assert table.look(1, 2) == []
    assert not table.test(1, 10)
    assert [token for token, _ in table.look(2, 2)] == [20]
    assert table._marks[0] == FRESH


@pytest.mark.parametrize("strange", [-1, -(1 << 40), 1 << 31, 1 << 62])
def test_strange_ids_do_no_harm(strange: int) -> None:
    proposer = Recycle(width=2)
    proposer.observe([plain([1, strange, 2], [strange % 1000, 5]), plain([strange, 2, 3], [3, 4])])
    assert len(proposer.propose([Text([1, strange])], 4)[0]) <= 4


def test_rounds_without_ranked_rows_teach_nothing() -> None:
    proposer = Recycle(width=4)
    empty = np.zeros((1, 0), np.int32)
    proposer.observe([Observation(Text([1, 2]), EMPTY, Verdict((), 2), np.array([1]), empty)])
    assert proposer.propose([Text([1])], 3) == [EMPTY]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.integers(0, 9), st.booleans())
def test_random_texts_stay_within_budget(output: list[int], budget: int, trees: bool) -> None:
    target = Target([1], output, width=3)
    proposer = Recycle(width=3, trees=trees, slots=7)
    target.run(proposer, budget)
    assert all(len(draft) <= budget for draft in target.drafts)


def test_rows_of_a_small_vocabulary_are_kept() -> None:
    proposer = Recycle(width=8)
    proposer.observe([plain([1, 2, 0], [0, 2, 1])])
    assert [guess.token for guess in proposer.extend((1, 2))] == [0, 2, 1]


def test_forget_keeps_the_shared_table() -> None:
    proposer = Recycle(width=1)
    proposer.observe([plain([1, 2, 3], [3])])
    proposer.forget(Text([1, 2, 3]))
    assert proposer.extend((1, 2))[0].token == 3


@pytest.mark.parametrize(("width", "slots"), [(0, 5), (3, 0)])
def test_impossible_sizes_are_refused(width: int, slots: int) -> None:
    with pytest.raises(BadRequest, match="at least 1 of each"):
        Recycle(width, slots=slots)

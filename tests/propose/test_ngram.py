import pytest
from hypothesis import given
from hypothesis import strategies as st
from propose_worlds import Text

from pilotfish.draft import EMPTY
from pilotfish.errors import BadRequest
from pilotfish.propose.ngram import Ngram


def test_drafts_what_followed_the_last_tokens() -> None:
    [draft] = Ngram().propose([Text([1, 2, 3, 4, 5, 9, 1, 2])], 3)
    assert draft.tokens == (3, 4, 5)
    assert draft.is_chain
    assert draft.match_lengths == (2, 2, 2)
    assert draft.sources == ("ngram",) * 3


def test_longest_match_beats_the_most_recent() -> None:
    [draft] = Ngram().propose([Text([1, 2, 3, 7, 0, 2, 3, 8, 0, 1, 2, 3])], 1)
    assert draft.tokens == (7,)


def test_most_recent_of_equal_matches_wins() -> None:
    [draft] = Ngram().propose([Text([2, 3, 7, 0, 2, 3, 8, 0, 2, 3])], 1)
    assert draft.tokens == (8,)


def test_shorter_matches_than_asked_for_are_left_alone() -> None:
    assert Ngram(4, 2).propose([Text([1, 2, 3, 1])], 3) == [EMPTY]
    assert Ngram(4, 1).propose([Text([1, 2, 3, 1])], 3)[0].tokens == (2, 3, 1)


def test_a_copy_reads_on_into_its_own_output() -> None:
    assert Ngram().propose([Text([5, 6, 5, 6])], 5)[0].tokens == (5, 6, 5, 6, 5)


@pytest.mark.parametrize("tokens", [[], [1], [1, 2, 3]])
def test_nothing_to_say(tokens: list[int]) -> None:
    assert Ngram().propose([Text(tokens)], 3) == [EMPTY]


def test_no_budget_no_draft() -> None:
    assert Ngram().propose([Text([1, 1, 1])], 0) == [EMPTY]


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 40))
def test_growing_equals_starting_late(tokens: list[int], cut: int) -> None:
    early, late = Ngram(), Ngram()
    early.propose([Text(tokens[:cut])], 3)
    assert early.propose([Text(tokens)], 3) == late.propose([Text(tokens)], 3)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=40))
def test_equals_a_search(tokens: list[int]) -> None:
    [draft] = Ngram(5, 1).propose([Text(tokens)], 1)
    for n in range(5, 0, -1):
        places = [end for end in range(n, len(tokens)) if tokens[end - n : end] == tokens[-n:]]
        if places and n <= len(tokens):
            assert draft.tokens == (tokens[places[-1]],)
            assert draft.match_lengths == (n,)
            return
    assert draft == EMPTY


def test_forget_drops_the_index() -> None:
    proposer, text = Ngram(), Text([1, 2, 1])
    proposer.propose([text], 3)
    proposer.forget(text)
    assert not proposer._indexes


@pytest.mark.parametrize(("longest", "shortest"), [(2, 3), (0, 0), (3, -1)])
def test_impossible_lengths_are_refused(longest: int, shortest: int) -> None:
    with pytest.raises(BadRequest, match="give 1 <= min_match <= max_match"):
        Ngram(longest, shortest)

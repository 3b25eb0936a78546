from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from propose_worlds import Target, Text

from pilotfish.draft import EMPTY, ROOT, Draft, Verdict
from pilotfish.errors import BadRequest
from pilotfish.propose import Context, Observation
from pilotfish.propose.joined import Joined
from pilotfish.propose.ngram import Ngram
from pilotfish.propose.recycle import Guess, Recycle
from pilotfish.propose.suffix import Suffix


class Says:
    """A proposer that always says the same, and remembers what it was told."""

    top_k = 0
    calibrated = False

    def __init__(self, name: str, draft: Draft = EMPTY, *, laws: bool = False) -> None:
        self.name, self.draft, self.draws_laws = name, draft, laws
        self.told: list[str] = []

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self.draft] * len(sequences)

    def observe(self, observations: Sequence[Observation]) -> None:
        self.told.append("observe")

    def forget(self, sequence: Context) -> None:
        self.told.append("forget")


class Counts(Says):
    """Continues any text with the next integer."""

    def extend(self, tokens: tuple[int, ...], most: int | None = None) -> list[Guess]:
        return [Guess(tokens[-1] + 1, 0.9, 1)]


def chain(name: str, tokens: list[int], chance: float, match: int = 1) -> Says:
    survival = [chance ** (k + 1) for k in range(len(tokens))]
    return Says(name, Draft.chain(tokens, source=name, match_length=match, survival=survival))


def test_one_node_for_one_guess() -> None:
    joined = Joined([chain("a", [1, 2], 0.5, 3), chain("b", [1, 3], 0.8, 5)], trees=True)
    [draft] = joined.propose([Text([0])], 5)
    assert sorted(draft.tokens) == [1, 2, 3]
    assert draft.sources[0] == "b"  # the surer one
    assert draft.match_lengths[0] == 5
    assert len(draft.children(0)) == 2
    assert {draft.sources[node] for node in draft.children(0)} == {"a", "b"}


def test_chains_take_the_better_path() -> None:
    joined = Joined([chain("a", [1, 2], 0.3), chain("b", [4, 5], 0.8)])
    [draft] = joined.propose([Text([0])], 5)
    assert draft.tokens == (4, 5)
    assert draft.is_chain


def test_trees_are_cut_to_the_budget_best_first() -> None:
    joined = Joined([chain("a", [1, 2, 3], 0.9), chain("b", [4, 5, 6], 0.5)], trees=True)
    [draft] = joined.propose([Text([0])], 4)
    assert len(draft) == 4
    assert list(draft.survival) == sorted(draft.survival, reverse=True)


@pytest.mark.parametrize("trees", [False, True])
def test_leaves_are_continued_while_budget_lasts(trees: bool) -> None:
    joined = Joined([chain("a", [10], 0.9), Counts("b")], trees=trees)
    [draft] = joined.propose([Text([0])], 4)
    assert draft.tokens == (10, 11, 12, 13)
    assert draft.sources == ("a", "b", "b", "b")


def test_it_learns_whom_to_trust() -> None:
    lies, knows = chain("lies", [7], 0.9), chain("knows", [1], 0.4)
    joined = Joined([lies, knows])
    target = Target([0], [1] * 60)
    target.run(joined, 1)
    assert target.drafts[0].tokens == (7,)
    assert target.drafts[-1].tokens == (1,)


def test_what_was_not_verified_is_learned_from_too() -> None:
    joined = Joined([chain("a", [1, 2], 0.6), chain("b", [3, 4], 0.5)])
    target = Target([0], [3, 9] * 30)
    target.run(joined, 2)
    assert target.drafts[-1].tokens == (3, 4)


def test_observe_and_forget_reach_all() -> None:
    parts = [chain("a", [1], 0.5), chain("b", [2], 0.5)]
    joined = Joined(parts)
    text = Target([0], [1, 1, 1]).run(joined, 2)
    joined.forget(text)
    assert not joined._tries
    for part in parts:
        assert part.told[-1] == "forget"
        assert "observe" in part.told


def test_rounds_that_were_not_drafted_for_do_not_confuse() -> None:
    joined = Joined([chain("a", [1], 0.5), chain("b", [2], 0.5)])
    text = Text([0])
    joined.propose([text], 2)
    text.tokens += [5, 6, 7]  # three rounds without a proposal
    joined.observe([Target([0], []).observation(text, EMPTY, Verdict((), 7))])
    assert not joined._survival._cells


def test_laws_are_not_merged() -> None:
    with pytest.raises(BadRequest, match="cannot join model, which draws its tokens from laws, with ngram"):
        Joined([Says("model", laws=True), Says("ngram")])
    with pytest.raises(BadRequest, match="cannot join a"):
        Joined([Says("a", laws=True), Says("b", laws=True)])
    assert Joined([Says("a", laws=True)]).draws_laws


def test_joining_nothing_or_twice_is_refused() -> None:
    with pytest.raises(BadRequest, match="at least one"):
        Joined([])
    with pytest.raises(BadRequest, match="names a proposer twice"):
        Joined([Says("a"), Says("a")])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=80),
    st.lists(st.integers(-2, 60_000), max_size=5),
    st.integers(0, 9),
    st.booleans(),
)
def test_random_texts_stay_within_budget(
    output: list[int], prompt: list[int], budget: int, trees: bool
) -> None:
    joined = Joined([Ngram(), Suffix(max_bytes=5000), Recycle(trees=trees)], trees=trees)
    target = Target([*prompt, 3], output)
    for identity in range(2):
        joined.forget(target.run(joined, budget, identity))
    for draft in target.drafts:
        assert len(draft) <= budget
        assert trees or draft.is_chain or draft == EMPTY
        for node, parent in enumerate(draft.parents):
            assert parent == ROOT or draft.survival[node] <= draft.survival[parent]


def test_sources_are_the_proposers_names() -> None:
    target = Target([1, 2, 3, 1, 2], [3, 1, 2, 3, 1, 2, 9, 1, 2, 3, 1] * 4)
    target.run(Joined([Suffix(), Recycle()]), 3)
    assert {source for draft in target.drafts for source in draft.sources} <= {"suffix", "recycle"}

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from propose_worlds import Target, Text

from pilotfish.draft import EMPTY, Draft
from pilotfish.errors import BadRequest
from pilotfish.propose.occurrences import WALL, Archive, Growing
from pilotfish.propose.suffix import Suffix


class Tree:
    """SuffixDecoding as written: a trie of all suffixes with counts, one node per string."""

    def __init__(self, documents: list[list[int]], depth: int) -> None:
        self.count: dict[tuple[int, ...], int] = defaultdict(int)
        self.newest: dict[tuple[int, ...], int] = {}
        self.after: dict[tuple[int, ...], set[int]] = defaultdict(set)
        time = 0
        for document in documents:
            for start in range(len(document)):
                for end in range(start, min(start + depth, len(document))):
                    string = tuple(document[start : end + 1])
                    self.count[string] += 1
                    self.newest[string] = time + start
                    self.after[string[:-1]].add(string[-1])
            time += len(document)

    def candidate(self, context: tuple[int, ...], budget: int, floor: float) -> tuple[list[int], list[float]]:
        tokens: list[int] = []
        survival: list[float] = []
        node, probability = context, 1.0
        while len(tokens) < budget and self.after.get(node):
            children = [(self.count[(*node, t)], self.newest[(*node, t)], t) for t in self.after[node]]
            count, _, token = max(children)
            probability *= count / sum(child[0] for child in children)
            if probability < floor:
                break
            node = (*node, token)
            tokens.append(token)
            survival.append(probability)
        return tokens, survival


def naive(text: list[int], past: list[list[int]], budget: int, longest: int, floor: float) -> Draft:
    best: tuple[float, int, list[int], list[float]] = (0.0, 0, [], [])
    for tree in (Tree([text], longest + budget), Tree(past, longest + budget)):
        for m in range(min(longest, len(text)), 0, -1):
            tokens, survival = tree.candidate(tuple(text[-m:]), budget, floor)
            if sum(survival) > best[0]:
                best = (sum(survival), m, tokens, survival)
    if not best[2]:
        return EMPTY
    return Draft.chain(best[2], source="suffix", match_length=best[1], survival=best[3])


tokens = st.lists(st.integers(0, 2), min_size=1, max_size=30)


@settings(max_examples=150, deadline=None)
@given(tokens, st.lists(tokens, max_size=3), st.integers(1, 7), st.sampled_from([0.0, 0.1, 0.4]))
def test_equals_the_tree_of_suffix_decoding(
    text: list[int], past: list[list[int]], budget: int, floor: float
) -> None:
    proposer = Suffix(min_token_prob=floor, longest=6, cap=200, max_bytes=1 << 14)
    for number, document in enumerate(past):
        old = Text(document, id=number + 1)
        proposer.propose([old], 1)
        proposer.forget(old)
    assert proposer.propose([Text(text)], budget) == [naive(text, past, budget, 6, floor)]


@settings(deadline=None)
@given(tokens, st.integers(0, 30))
def test_growing_equals_starting_late(text: list[int], cut: int) -> None:
    early, late = Suffix(), Suffix()
    early.propose([Text(text[:cut])], 3)
    assert early.propose([Text(text)], 3) == late.propose([Text(text)], 3)


def test_the_most_frequent_continuation_wins() -> None:
    [draft] = Suffix().propose([Text([1, 2, 3, 1, 2, 3, 1, 2, 4, 0, 1, 2])], 1)
    assert draft.tokens == (3,)
    assert draft.survival == (2 / 3,)


def test_unlikely_paths_end() -> None:
    text = [t for k in range(20) for t in (1, 2, k + 10)]
    [draft] = Suffix(min_token_prob=0.1).propose([Text([*text, 1])], 5)
    assert draft.tokens == (2,)


def test_past_outputs_are_drafted_from_and_prompts_are_not() -> None:
    proposer = Suffix()
    old = Text([7, 7, 7, 8, 1, 2, 3, 4], prompt_length=4, id=1)
    proposer.propose([old], 1)
    proposer.forget(old)
    assert proposer.propose([Text([1, 2], id=2)], 3)[0].tokens == (3, 4)
    assert proposer.propose([Text([7, 7], id=3)], 3)[0].tokens == (7,)  # from itself
    assert proposer.propose([Text([9, 8], id=4)], 3) == [EMPTY]


def test_the_walk_does_not_cross_documents() -> None:
    proposer = Suffix()
    for identity, document in enumerate([[1, 2, 3], [4, 5, 6]]):
        old = Text(document, id=identity)
        proposer.propose([old], 1)
        proposer.forget(old)
    assert proposer.propose([Text([1, 2], id=9)], 5)[0].tokens == (3,)
    assert proposer.propose([Text([3, 4], id=10)], 5)[0].match_lengths == (1, 1)


def test_forget_drops_the_text_and_counts_it_once() -> None:
    proposer = Suffix()
    text = Target([1, 2, 3], [4, 5, 6, 4, 5]).run(proposer, 3)
    proposer.forget(text)
    place = proposer.archive._next
    proposer.forget(text)
    assert not proposer._texts
    assert proposer.archive._next == place


def archive_matches(archive: Archive, recent: list[int]) -> list[tuple[int, ...]]:
    """The continuations found, as three tokens each."""
    found = next(archive.matches(recent, 10, 8), (0, []))[1]
    return [tuple(archive.tokens[place : place + 3]) for place in found]


def test_the_archive_keeps_the_newest_outputs_within_its_bytes() -> None:
    archive = Archive(20_000)
    size = archive.nbytes
    assert 19_000 <= size <= 20_000
    for number in range(200):
        base = 1000 * (number + 1)
        archive.add([base + k for k in range(10 + number % 7)])
        assert archive.nbytes == size
        newest = archive_matches(archive, [base + 1, base])
        assert newest == [(base + 2, base + 3, base + 4)]
    assert archive_matches(archive, [1001, 1000]) == []
    kept = [n for n in range(1, 201) if archive_matches(archive, [1000 * n + 1, 1000 * n])]
    assert kept == list(range(kept[0], 201))  # oldest first
    assert 20 <= len(kept) < 40


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), max_size=25), max_size=40), st.integers(0, 4000))
def test_the_archive_only_tells_what_was_said(documents: list[list[int]], max_bytes: int) -> None:
    archive = Archive(max_bytes)
    for document in documents:
        archive.add(document)
        assert archive.nbytes <= max_bytes
        for m, places in archive.matches(document[::-1], 8, 6):
            assert len(set(places)) == len(places)
            for place in places:
                said = (*archive.tokens[place - m : place], archive.tokens[place])
                assert said[:-1] == tuple(document[-m:])
                assert any(
                    said == tuple(other[at : at + m + 1]) for other in documents for at in range(len(other))
                )


def test_one_output_longer_than_the_archive() -> None:
    archive = Archive(2000)
    archive.add(list(range(5000)))
    assert archive_matches(archive, [4990, 4989]) == [(4991, 4992, 4993)]


@pytest.mark.parametrize("max_bytes", [0, 1, 100, 500])
def test_tiny_archives(max_bytes: int) -> None:
    archive = Archive(max_bytes)
    for _ in range(20):
        archive.add([1, 2, 3])
    assert archive.nbytes <= max_bytes


@pytest.mark.parametrize("text", [[5] * 4000, [5, 6] * 2000, [1, 1, 1, 1, 2] * 800])
def test_repetition_is_bounded_and_sure(text: list[int]) -> None:
    [draft] = Suffix().propose([Text(text)], 7)
    period = next(p for p in (1, 2, 5) if text[p:] == text[:-p])
    assert draft.tokens == tuple(text[len(text) % period :][:7])
    assert min(draft.survival) == 1.0
    grown = Growing()
    grown.extend(text)
    for m, places in grown.matches(grown.recent(16), 24, 16):
        assert m <= 16
        assert len(places) <= 24


@pytest.mark.parametrize("strange", [-1, -(1 << 31), 1 << 31, 1 << 40, WALL])
def test_strange_ids_do_no_harm(strange: int) -> None:
    proposer = Suffix()
    for identity in range(3):
        text = Text([1, strange, 2, strange, 1, strange], id=identity)
        for budget in (1, 7):
            assert len(proposer.propose([text], budget)[0]) <= budget
        proposer.forget(text)


def test_many_random_texts_stay_within_budget() -> None:
    rng = random.Random(0)
    proposer = Suffix(max_bytes=5000)
    for identity in range(40):
        alphabet = rng.choice([2, 3, 50])
        output = [rng.randrange(alphabet) for _ in range(60)]
        target = Target([rng.randrange(alphabet) for _ in range(rng.randrange(1, 20))], output)
        proposer.forget(target.run(proposer, 5, identity))
        assert all(len(draft) <= 5 for draft in target.drafts)


@pytest.mark.parametrize("wrong", [{"min_token_prob": 1.5}, {"longest": 0}, {"cap": 0}, {"max_bytes": -1}])
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="suffix was asked for"):
        Suffix(**wrong)

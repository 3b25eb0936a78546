from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.draft import EMPTY, ROOT, Draft, Verdict
from pilotfish.propose.survival import LEAST, MOST, Survival


def test_price_replaces_only_survival() -> None:
    draft = Draft((1, 2, 3), (ROOT, ROOT, 1), ("suffix", "x", "y"), (3, 0, 1), (1.0, 0.5, 0.4))
    priced = Survival().price(draft)
    assert (priced.tokens, priced.parents, priced.sources) == (draft.tokens, draft.parents, draft.sources)
    assert priced.match_lengths == draft.match_lengths
    assert priced.survival != draft.survival
    assert Survival().price(EMPTY) is EMPTY


def test_unknown_sources_start_with_their_own_confidence() -> None:
    draft = Draft.chain([1, 2], source="eagle", survival=[0.8, 0.4])
    assert Survival().price(draft).survival == pytest.approx((0.8, 0.4))


def learn(survival: Survival, draft: Draft, verdict: Verdict, times: int) -> None:
    for _ in range(times):
        survival.observe(draft, verdict)


def test_only_nodes_that_were_reached_count() -> None:
    survival = Survival()
    draft = Draft.chain([1, 2, 3], source="x", survival=[0.5, 0.25, 0.125])
    learn(survival, draft, Verdict((0,), 9), 500)
    first, second, third = survival.price(draft).survival
    assert first > 0.9
    assert second < 0.1
    seen = {key[3]: cell[1] for key, cell in survival._cells.items() if len(key) == 4}
    assert sorted(seen) == [0, 1]  # the third depth was never seen
    assert third < second


def test_the_finishing_token_counts_when_it_was_drafted() -> None:
    survival = Survival()
    draft = Draft.chain([1, 2], source="x", survival=[0.5, 0.25])
    learn(survival, draft, Verdict((0,), 2), 500)
    assert min(survival.price(draft).survival) > 0.9


def test_siblings_are_seen_together() -> None:
    survival = Survival()
    draft = Draft((1, 2), (ROOT, ROOT), ("x", "y"), (0, 0), (0.5, 0.5))
    learn(survival, draft, Verdict((1,), 7), 500)
    right, wrong = survival.price(draft).survival[::-1]
    assert right > 0.9
    assert wrong < 0.1


def test_following_the_text_learns_from_cut_nodes_too() -> None:
    survival = Survival()
    draft = Draft.chain([1, 2, 3], source="x", survival=[0.5, 0.25, 0.125])
    for _ in range(500):
        survival.follow(draft, [1, 2, 9, 9])
    first, second, third = survival.price(draft).survival
    assert second > 0.9
    assert third < 0.1 * second
    short = Survival()
    short.follow(draft, [1])
    assert {key[3] for key in short._cells if len(key) == 4} == {0}  # nothing is known of what comes later
    assert first > second


def test_a_verdict_after_no_draft_is_nothing() -> None:
    survival = Survival()
    survival.observe(EMPTY, Verdict((), 3))
    assert not survival._cells


def test_calibrated_on_simulated_verdicts() -> None:
    """Proposers that overstate by source and match length are corrected: small error per bucket."""
    rng = random.Random(1)
    truth = {("a", 1): 0.2, ("a", 8): 0.9, ("b", 1): 0.55, ("b", 8): 0.7}
    survival = Survival()
    bins: dict[int, list[float]] = {}
    for step in range(6000):
        (source, match), chance = rng.choice(list(truth.items()))
        draft = Draft.chain([1, 2, 3], source=source, match_length=match)
        accepted = 0
        while accepted < 3 and rng.random() < chance:
            accepted += 1
        if step > 1000:
            for node, price in enumerate(survival.price(draft).survival):
                cell = bins.setdefault(int(price * 10), [0.0, 0.0, 0.0])
                cell[0] += price
                cell[1] += node < accepted
                cell[2] += 1
        survival.observe(draft, Verdict(tuple(range(accepted)), 9))
    total = sum(cell[2] for cell in bins.values())
    error = sum(abs(cell[0] - cell[1]) for cell in bins.values()) / total
    assert error < 0.02


def test_old_rounds_fade() -> None:
    survival = Survival(memory=50)
    draft = Draft.chain([1], source="x", survival=[0.5])
    learn(survival, draft, Verdict((0,), 7), 500)
    learn(survival, draft, Verdict((), 7), 300)
    assert survival.price(draft).survival[0] < 0.1


def test_few_observations_lean_on_coarser_cells() -> None:
    survival = Survival()
    short, long = (Draft.chain([1], source="x", match_length=m, survival=[0.5]) for m in (1, 8))
    learn(survival, short, Verdict((0,), 7), 400)
    assert survival.price(long).survival[0] > 0.8


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    parents: list[int] = []
    for node in range(draw(st.integers(0, 9))):
        parents.append(draw(st.integers(-1, node - 1)))
    count = len(parents)
    sources = draw(st.lists(st.sampled_from(["suffix", "recycle", "?"]), min_size=count, max_size=count))
    chances = draw(st.lists(st.floats(0, 1), min_size=count, max_size=count))
    matches = draw(st.lists(st.integers(0, 70), min_size=count, max_size=count))
    return Draft(tuple(range(count)), tuple(parents), tuple(sources), tuple(matches), tuple(chances))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(drafts(), st.randoms(use_true_random=False)), max_size=12))
def test_prices_never_rise_along_a_path(rounds: list[tuple[Draft, random.Random]]) -> None:
    survival = Survival()
    for draft, rng in rounds:
        priced = survival.price(draft)
        for node, parent in enumerate(priced.parents):
            above = 1.0 if parent == ROOT else priced.survival[parent]
            assert LEAST * above <= priced.survival[node] <= MOST * above
        path: list[int] = []
        while (children := draft.children(path[-1] if path else ROOT)) and rng.random() < 0.7:
            path.append(rng.choice(children))
        survival.observe(draft, Verdict(tuple(path), rng.randrange(10)))

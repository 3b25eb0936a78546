"""Coupled verification writes the tokens of plain decoding, whatever is drafted."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest

from pilotfish.draft import EMPTY, ROOT, Draft
from pilotfish.sampling import SamplingParams
from pilotfish.testing import (
    MarkovTarget,
    Nothing,
    PlainLaw,
    WorldContinuation,
    chi_square_deviation,
    run_round,
    run_world,
)

PROMPT = [1, 0, 1]


def tree(random: Random, *, nodes: int, vocab: int) -> Draft:
    """A random tree of distinct siblings."""
    tokens: list[int] = []
    parents: list[int] = []
    edges: set[tuple[int, int]] = set()
    for _ in range(nodes):
        edge = (random.randrange(ROOT, len(tokens)), random.randrange(vocab))
        if edge not in edges:
            edges.add(edge)
            parents.append(edge[0])
            tokens.append(edge[1])
    count = len(tokens)
    return Draft(tuple(tokens), tuple(parents), ("test",) * count, (0,) * count, (1.0,) * count)


def assert_follows_plain(
    target: MarkovTarget, params: SamplingParams, drafts: list[Draft], kind: str
) -> None:
    """One round of every draft, from every place of the plain output, writes what comes there."""
    plain = run_world(target, Nothing(), params, kind="coupled", prompt=PROMPT).tokens
    for draft in drafts:
        for start in (0, 3):
            sequence = PlainLaw(target, params, prompt=PROMPT).continuation(tuple(plain[:start]))
            verdict = run_round(target, draft, sequence, kind=kind).verdict
            written = verdict.emitted(draft)
            assert tuple(plain[start : start + len(written)]) == written
            assert sequence.output == plain[: start + len(written)]
            deeper = draft.child(verdict.path[-1] if verdict.path else ROOT, verdict.token)
            assert deeper is None or sequence.finish_reason is not None


@pytest.mark.parametrize("kind", ["coupled", "rejection"])
def test_every_chain(setting: dict[str, Any], kind: str) -> None:
    """Point masses under rejection are followed too, so they write the plain text as well."""
    target = MarkovTarget.random(seed=31, vocab=3, order=2)
    chains = [
        Draft.chain(tokens, source="test")
        for length in range(4)
        for tokens in product(range(3), repeat=length)
    ]
    assert_follows_plain(target, SamplingParams(max_tokens=6, seed=5, **setting), chains, kind)


@pytest.mark.parametrize("vocab", [3, 4, 5])
def test_random_trees(setting: dict[str, Any], vocab: int) -> None:
    target = MarkovTarget.random(seed=vocab, vocab=vocab, order=1, zeros=0.1)
    random = Random(vocab)
    trees = [tree(random, nodes=random.randrange(1, 14), vocab=vocab) for _ in range(40)]
    assert_follows_plain(target, SamplingParams(max_tokens=6, seed=vocab, **setting), trees, "coupled")


def test_ties_go_to_the_lowest_id() -> None:
    target = MarkovTarget.random(seed=2, vocab=5, ties=True)
    params = SamplingParams(max_tokens=6)
    plain = run_world(target, Nothing(), params, kind="coupled", prompt=[0]).tokens
    tokens = [0]
    for token in plain:
        row = target.row(tokens)
        assert token == min(index for index in range(5) if row[index] == row.max())
        tokens.append(token)
    everything = Draft((0, 1, 2, 3, 4), (ROOT,) * 5, ("test",) * 5, (0,) * 5, (1.0,) * 5)
    sequence = WorldContinuation([0], vocab=5, params=params)
    run_round(target, everything, sequence, kind="coupled")
    assert sequence.output == plain[:2]


def test_the_draw_has_the_processed_law(setting: dict[str, Any]) -> None:
    target = MarkovTarget.random(seed=41, vocab=5, order=1)
    plain = PlainLaw(target, SamplingParams(max_tokens=1, **setting), prompt=PROMPT)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(2000):
        params = SamplingParams(max_tokens=1, seed=seed, **setting)
        sequence = WorldContinuation(PROMPT, vocab=5, params=params)
        counts[(run_round(target, EMPTY, sequence, kind="coupled").verdict.token,)] += 1
    if params.temperature == 0.0:
        assert dict(counts) == dict.fromkeys(plain.outputs(1), 2000)
    else:
        assert chi_square_deviation(counts, plain.outputs(1)) < 3.1

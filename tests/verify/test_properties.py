"""Properties that hold for any world, any parameters and any drafts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.draft import ROOT, Draft
from pilotfish.propose import Context
from pilotfish.sampling import Noise, SamplingParams
from pilotfish.testing import Decoded, MarkovTarget, Nothing, Sampled, run_world


class RandomDrafts(Nothing):
    """Other fixed trees in every round; chains where the rule asks for chains."""

    def __init__(self, seed: int, vocab: int, *, chains: bool) -> None:
        self.random, self.vocab, self.chains = Random(seed), vocab, chains

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self.draft(budget) for _ in sequences]

    def draft(self, budget: int) -> Draft:
        edges: list[tuple[int, int]] = []
        for _ in range(self.random.randint(0, budget)):
            parent = len(edges) - 1 if self.chains else self.random.randrange(ROOT, len(edges))
            edge = (parent, self.random.randrange(self.vocab))
            if edge not in edges:
                edges.append(edge)
        count = len(edges)
        parents, tokens = zip(*edges, strict=True) if edges else ((), ())
        return Draft(tokens, parents, ("random",) * count, (0,) * count, (1.0,) * count)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[MarkovTarget, dict[str, Any], list[int]]:
    """A target, sampling parameters by name (end-of-text is token 0), and a prompt."""
    vocab = draw(st.integers(3, 6))
    target = MarkovTarget.random(
        seed=draw(st.integers(0, 99)), vocab=vocab, order=draw(st.integers(0, 2)), ties=draw(st.booleans())
    )
    max_tokens = draw(st.integers(1, 12))
    params = {
        "max_tokens": max_tokens,
        "min_tokens": draw(st.integers(0, max_tokens)),
        "temperature": draw(st.sampled_from([0.0, 0.3, 1.0, 2.0])),
        "top_k": draw(st.integers(0, 3)),
        "top_p": draw(st.sampled_from([0.5, 0.9, 1.0])),
        "min_p": draw(st.sampled_from([0.0, 0.2])),
        "repetition_penalty": draw(st.sampled_from([0.8, 1.0, 1.5])),
        "presence_penalty": draw(st.sampled_from([-0.5, 0.0, 1.0])),
        "frequency_penalty": draw(st.sampled_from([0.0, 0.7])),
        "logit_bias": draw(st.dictionaries(st.integers(0, vocab - 1), st.floats(-3, 3), max_size=2)),
        "stop_ids": draw(st.sets(st.just(1))),
        "ignore_eos": draw(st.booleans()),
        "seed": draw(st.integers(0, 2**64 - 1)),
    }
    prompt = draw(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=4))
    return target, params, prompt


def assert_sound(done: Decoded, params: SamplingParams) -> None:
    """The books balance, and the end is the end."""
    assert len(done.tokens) == sum(done.accepted) + len(done.rounds)
    emitted = [token for round_ in done.rounds for token in round_.verdict.emitted(round_.draft)]
    assert emitted == done.tokens
    ends = params.stop_ids | (frozenset() if params.ignore_eos else {0})
    assert not ends & set(done.tokens[:-1])
    assert done.finish_reason == ("stop" if done.tokens[-1] in ends else "length")
    assert len(done.tokens) <= params.max_tokens
    assert done.finish_reason == "stop" or len(done.tokens) == params.max_tokens
    assert len(done.tokens) >= params.min_tokens


@settings(max_examples=120, deadline=None, derandomize=True, database=None)
@given(worlds(), st.integers(0, 2**32), st.integers(0, 9))
def test_point_masses_write_the_plain_text(
    world: tuple[MarkovTarget, dict[str, Any], list[int]], seed: int, budget: int
) -> None:
    target, named, prompt = world
    params = SamplingParams(**named)
    plain = run_world(target, Nothing(), params, kind="coupled", prompt=prompt, eos_ids={0})
    assert_sound(plain, params)
    for kind in ("coupled", "rejection", "block"):
        proposer = RandomDrafts(seed, target.vocab, chains=kind == "block")
        done = run_world(target, proposer, params, kind=kind, prompt=prompt, eos_ids={0}, budget=budget)
        assert_sound(done, params)
        if kind != "block" or params.temperature == 0.0:
            assert done.tokens == plain.tokens and done.finish_reason == plain.finish_reason


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(worlds(), st.integers(0, 99), st.lists(st.integers(1, 3), max_size=3))
def test_sampled_drafts_keep_the_books(
    world: tuple[MarkovTarget, dict[str, Any], list[int]], seed: int, widths: list[int]
) -> None:
    target, named, prompt = world
    params = SamplingParams(**named)
    plain = run_world(target, Nothing(), params, kind="coupled", prompt=prompt, eos_ids={0})
    table = MarkovTarget.random(seed=seed, vocab=target.vocab)
    for kind, shape in (("coupled", widths), ("rejection", widths), ("block", [1] * len(widths))):
        proposer = Sampled(table, params, Noise(named["seed"], 0), widths=shape, eos_ids={0})
        done = run_world(target, proposer, params, kind=kind, prompt=prompt, eos_ids={0}, budget=12)
        assert_sound(done, params)
        if kind == "coupled" or params.temperature == 0.0:
            assert done.tokens == plain.tokens

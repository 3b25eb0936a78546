"""Processors against the slow reference, row by row; broken rows; logprobs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from pilotfish.errors import BadLogits
from pilotfish.sampling import History, SamplingParams, Scores, law, logprobs, process

from .reference import adjusted, survivors

VOCAB = 9
TOKENS = st.integers(0, VOCAB - 1)
# Halves: ties are common, and float32 holds them exactly.
LOGITS = st.one_of(
    st.integers(-8, 8).map(lambda half: half / 2), st.just(-math.inf), st.floats(-9, 9, width=32)
)
ROWS = st.lists(LOGITS, min_size=VOCAB, max_size=VOCAB)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "min_tokens": st.integers(0, 4),
        "temperature": st.sampled_from([0.0, 1e-4, 0.3, 0.7, 1.0, 2.0]),
        "top_k": st.integers(0, VOCAB + 2),
        "top_p": st.sampled_from([1.0, 0.97, 0.83, 0.41, 1e-9]),
        "min_p": st.sampled_from([0.0, 0.013, 0.11, 0.57, 1.0]),
        "repetition_penalty": st.sampled_from([1.0, 0.8, 1.3]),
        "presence_penalty": st.sampled_from([0.0, -0.5, 1.5]),
        "frequency_penalty": st.sampled_from([0.0, 0.25, -1.0]),
        "logit_bias": st.dictionaries(TOKENS, st.sampled_from([-100.0, -1.5, 0.5, 100.0]), max_size=3),
        "banned_ids": st.frozensets(TOKENS, max_size=3),
        "stop_ids": st.frozensets(TOKENS, max_size=2),
    },
)


def frozen(values: list[float]) -> NDArray[np.float32]:
    """A row that nobody can write to."""
    row = np.array(values, np.float32)
    row.flags.writeable = False
    return row


def same(left: Scores, right: Scores) -> bool:
    ids = left.ids is right.ids is None or np.array_equal(left.ids, right.ids)  # type: ignore[arg-type]
    return ids and left.values.tobytes() == right.values.tobytes() and left.best == right.best


def history_of(prompt: list[int], output: list[int], vocab: int = VOCAB) -> History:
    history = History(prompt, vocab)
    for token in output:
        history.push(token)
    return history


@settings(max_examples=600, deadline=None)
@given(
    ROWS,
    st.lists(TOKENS, max_size=4),
    st.lists(TOKENS, max_size=5),
    PARAMS,
    st.frozensets(TOKENS, max_size=2),
    st.data(),
)
def test_any_mix_of_parameters_equals_the_reference(
    values: list[float],
    prompt: list[int],
    output: list[int],
    mix: dict[str, Any],
    eos: frozenset[int],
    data: st.DataObject,
) -> None:
    row, params = frozen(values), SamplingParams(**mix)
    mask = data.draw(st.none() | st.lists(st.booleans(), min_size=VOCAB, max_size=VOCAB))
    allowed = None if mask is None else np.array(mask)
    history = history_of(prompt, output)
    expected = adjusted(row, prompt, output, params, eos, allowed)
    if max(values) == -math.inf or max(expected) == -np.inf:
        with pytest.raises(BadLogits):
            process(row, history, params, eos, allowed=allowed)
        return
    scores = process(row, history, params, eos, allowed=allowed)
    dense = law(scores, VOCAB)
    peak = max(range(VOCAB), key=lambda token: (expected[token], -token))
    assert scores.greedy == (params.temperature == 0)
    if scores.greedy:
        assert scores.ids is None and scores.values.tolist() == expected
        assert scores.best == peak and dense.tolist() == [float(token == peak) for token in range(VOCAB)]
        return
    cooled = [float(value) / params.temperature for value in expected]
    kept, margin = survivors(cooled, params)
    assume(margin > 1e-4)  # float32 may decide otherwise only where the decision is that near
    assert np.flatnonzero(dense).tolist() == [t for t in kept if cooled[t] - cooled[peak] > -700]
    ids = np.arange(VOCAB) if scores.ids is None else scores.ids
    assert ids[scores.best] == peak and (np.diff(ids) > 0).all()
    wide = np.array([cooled[token] for token in kept])
    np.testing.assert_allclose(dense[kept], softmax(wide), rtol=2e-5, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.lists(ROWS, min_size=6, max_size=6), st.lists(st.one_of(TOKENS, st.just(-1)), max_size=12), PARAMS)
def test_looking_ahead_and_coming_back_leaves_no_trace(
    rows: list[list[float]], steps: list[int], mix: dict[str, Any]
) -> None:
    params, prompt = SamplingParams(**mix), [1, 3, 3]
    history, output = History(prompt, VOCAB), list[int]()
    for at, step in enumerate(steps):
        if step >= 0:
            history.push(step)
            output.append(step)
        elif output:
            history.pop()
            output.pop()
        row = frozen([max(value, -9.0) for value in rows[at % 6]])
        if len(params.banned_ids | params.stop_ids | {2}) < VOCAB:
            fresh = process(row, history_of(prompt, output), params, frozenset({2}))
            assert same(process(row, history, params, frozenset({2})), fresh)


@pytest.mark.parametrize("size", [20, 300, 49_152])
@pytest.mark.parametrize("top_k", [1, 7, 19, 150])
def test_exactly_k_survive_and_ties_go_to_the_lowest_ids(size: int, top_k: int) -> None:
    flat = frozen([1.5] * size)
    ids = process(flat, History([], size), SamplingParams(temperature=0.7, top_k=top_k)).ids
    expected = range(min(top_k, size))
    assert (list(range(size)) if ids is None else ids.tolist()) == list(expected)
    stepped = np.floor(np.random.default_rng(top_k).normal(0, 2, size)).astype(np.float32)
    ids = process(stepped, History([], size), SamplingParams(temperature=0.7, top_k=top_k)).ids
    best = sorted(range(size), key=lambda token: (-stepped[token], token))[:top_k]
    assert (list(range(size)) if ids is None else ids.tolist()) == sorted(best)


@pytest.mark.parametrize(
    ("top_p", "kept"), [(0.5, 2), (0.25, 1), (0.51, 3), (0.75, 3), (0.76, 4), (1e-30, 1)]
)
def test_the_token_that_crosses_top_p_is_kept(top_p: float, kept: int) -> None:
    row = frozen([3.0, -math.inf, 3.0, 3.0, -math.inf, 3.0])
    ids = process(row, History([], 6), SamplingParams(temperature=1.0, top_p=top_p)).ids
    assert ids is not None and ids.tolist() == [0, 2, 3, 5][:kept]


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.95, 0.999, 1 - 1e-9])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 3.0, 10.0])
def test_top_p_at_the_real_vocabulary_size(top_p: float, spread: float) -> None:
    row = np.random.default_rng(5).normal(0, spread, 49_152).astype(np.float32)
    scores = process(row, History([], 49_152), SamplingParams(temperature=1.0, top_p=top_p))
    assert scores.ids is not None
    probabilities = softmax(row.astype(np.float64))
    mass = probabilities[scores.ids].sum()
    least = probabilities[scores.ids].min()
    assert mass >= top_p - 1e-6  # enough,
    assert mass - least < top_p + 1e-6  # and without its last token not enough,
    rest = np.delete(probabilities, scores.ids)
    assert len(rest) == 0 or rest.max() <= least  # and nothing outside is better.


@pytest.mark.parametrize("temperature", [1e-45, 1e-10, 1e30, 1e300])
def test_extreme_temperatures_are_laws_too(temperature: float) -> None:
    row = frozen([-math.inf, 88.0, -30.0, 87.5])
    dense = law(process(row, History([], 4), SamplingParams(temperature=temperature)), 4)
    assert dense[1:].tolist() == pytest.approx([1, 0, 0] if temperature < 1 else [1 / 3] * 3)
    assert dense[0] == 0


def test_greedy_without_penalties_touches_no_copy() -> None:
    row = frozen([0.0, 2.0, 2.0])
    scores = process(row, History([], 3), SamplingParams())
    assert scores.values is row and scores.best == 1 and scores.ids is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("place", [0, 17, 299])
@pytest.mark.parametrize(
    "mix", [{}, {"temperature": 1.0, "top_p": 0.9}, {"banned_ids": [0, 17, 299]}], ids=str
)
def test_broken_rows_are_loud(bad: float, place: int, mix: dict[str, Any]) -> None:
    row = np.zeros(300, np.float32)
    row[place] = bad
    with pytest.raises(BadLogits, match=f"at id {place}"):
        process(row, History([], 300), SamplingParams(**mix))


def test_a_row_with_nothing_left_is_loud() -> None:
    with pytest.raises(BadLogits, match="no finite number"):
        process(frozen([-math.inf] * 3), History([], 3), SamplingParams())
    with pytest.raises(BadLogits, match="after bans"):
        process(frozen([0.0, -math.inf]), History([], 2), SamplingParams(banned_ids=frozenset({0})))


@pytest.mark.parametrize("top_n", [0, 1, 4, 7])
def test_raw_logprobs(top_n: int) -> None:
    row = frozen([1.0, 3.0, -math.inf, 3.0, 0.5])
    report = logprobs(row, 4, top_n)
    expected = log_softmax(row.astype(np.float64))
    assert report.logprob == pytest.approx(expected[4])
    assert report.top_ids.tolist() == [1, 3, 0, 4, 2][:top_n]
    assert report.top_logprobs.tolist() == pytest.approx(expected[[1, 3, 0, 4, 2]][:top_n].tolist())


def test_processed_logprobs() -> None:
    row = frozen([1.0, 3.0, 2.0, 3.0, 0.5])
    scores = process(row, History([], 5), SamplingParams(temperature=0.5, top_k=3))
    report = logprobs(scores, 2, 20)
    expected = log_softmax(np.array([6.0, 6.0, 4.0]))
    assert report.top_ids.tolist() == [1, 3, 2]
    assert report.top_logprobs.tolist() == pytest.approx(expected.tolist())
    assert report.logprob == pytest.approx(expected[2])
    assert logprobs(scores, 0, 1).logprob == -math.inf


def test_end_ids_are_banned_until_min_tokens_even_if_some_do_not_exist() -> None:
    row, params = frozen([5.0, 4.0, 3.0]), SamplingParams(min_tokens=2, stop_ids=frozenset({1}))
    best = [
        process(row, history_of([0], output, 3), params, frozenset({0, 99})).best
        for output in ([], [2], [2, 2])
    ]
    assert best == [2, 2, 0]
    only_missing = process(row, History([], 3), SamplingParams(min_tokens=2), frozenset({99}))
    assert only_missing.best == 0

"""Where a request ends, where it may not begin, and who waits for whom."""

from __future__ import annotations

import numpy as np
import pytest

from pilotfish.engine.admission import Admission
from pilotfish.engine.request import Request
from pilotfish.engine.sequence import Limits
from pilotfish.errors import BadRequest, OutOfBlocks
from pilotfish.model.cache import BlockPool
from pilotfish.model.runner import Form
from pilotfish.testing import Coin, Contrarian, Oracle, Overlong
from tests.engine.engine_worlds import (
    EOS,
    PIECES,
    TIGHT,
    VOCAB,
    Outcomes,
    ask,
    finish,
    make_engine,
    make_runner,
    plain,
    pool_of,
    run,
    run_one,
    script,
    take,
    watched_of,
)

FREE = ask([1, 2, 0], max_tokens=30, temperature=1.0, ignore_eos=True)


def with_params(**params: object) -> Request:
    return ask(FREE.prompt, **({"max_tokens": 30, "temperature": 1.0, "ignore_eos": True} | params))


@pytest.mark.parametrize("token", range(VOCAB))
def test_a_stop_id_ends_at_its_first_place_whatever_is_drafted(token: int) -> None:
    """F13, at every offset of a block that chance gives; the text ends before the stop id."""
    free = plain(FREE)[0].tokens
    request = with_params(stop_ids={token})
    for engine in (make_engine(), make_engine(Oracle(script([FREE])))):
        outcome = run_one(engine, request)
        if token in free:
            assert outcome.tokens == free[: free.index(token) + 1] and outcome.finish_reason == "stop"
        else:
            assert outcome.tokens == free and outcome.finish_reason == "length"


def test_end_of_text_and_ignoring_it() -> None:
    free = plain(FREE)[0].tokens
    assert free.count(EOS) > 0
    ends = ask(FREE.prompt, max_tokens=30, temperature=1.0)
    for engine in (make_engine(), make_engine(Oracle(script([FREE])))):
        assert run_one(engine, ends).tokens == free[: free.index(EOS) + 1]
    assert run_one(make_engine(Oracle(script([FREE]))), FREE).tokens == free


@pytest.mark.parametrize("limit", range(12))
def test_the_earlier_boundary_decides(limit: int) -> None:
    """F11: a stop before the limit is a stop, a limit before the stop is a length."""
    free = plain(FREE)[0].tokens
    stop = free[6]
    first = free.index(stop)
    request = with_params(max_tokens=limit, stop_ids={stop})
    for proposer in (None, Oracle(script([FREE])), Overlong(script([FREE]), excess=5)):
        outcome = run_one(make_engine(proposer), request)
        if first < limit:
            assert (outcome.tokens, outcome.finish_reason) == (free[: first + 1], "stop")
        else:
            assert (outcome.tokens, outcome.finish_reason) == (free[:limit], "length")


def first_completed(tokens: list[int], stop: str) -> tuple[int, str] | None:
    """How many tokens complete a stop string, and the text before it: token by token."""
    text = ""
    for count, token in enumerate(tokens, 1):
        text += PIECES[token]
        if stop in text:
            return count, text[: text.index(stop)]
    return None


def test_stop_strings_at_every_offset_of_a_block() -> None:
    """F12: every substring of the text as a stop string, in plain and in long accepted blocks."""
    free = plain(FREE)[0]
    known = script([FREE])
    pieces = {free.text[at : at + length] for at in range(0, len(free.text), 3) for length in (1, 2, 5, 9)}
    for stop in sorted(pieces - {""}):
        found = first_completed(free.tokens, stop)
        assert found is not None
        for engine in (
            make_engine(),
            make_engine(Oracle(known)),
            make_engine(Contrarian(known, vocab=VOCAB)),
        ):
            outcome = run_one(engine, with_params(stop=stop))
            assert (outcome.tokens, outcome.text) == (free.tokens[: found[0]], found[1])
            assert outcome.finish_reason == "stop"


@pytest.mark.parametrize("least", [0, 3, 11, 30])
def test_min_tokens_outlasts_stops_and_ends(least: int) -> None:
    request = ask([1, 2, 0], max_tokens=30, min_tokens=least, temperature=1.0, stop="a", stop_ids={2})
    expected = plain(request)[0]
    assert len(expected.tokens) >= max(least, 1)
    assert not {EOS, 2} & set(expected.tokens[: max(least - 1, 0)])
    assert run_one(make_engine(Oracle(script([request]))), request).what == expected.what


def test_no_new_tokens() -> None:
    outcomes = run(make_engine(), [with_params(max_tokens=0, n=3)])[0]
    assert [outcome.what for outcome in outcomes] == [([], "", "length")] * 3
    full = [1] * make_runner().context
    assert run_one(make_engine(), ask(full)).what == ([], "", "length")


@pytest.mark.parametrize("form", [TIGHT, Form(min_tokens=1, max_rows=40, bitwise=False)])
@pytest.mark.parametrize("length", [1, 5, 62, 63])
def test_to_the_exact_end_of_the_context(length: int, form: Form) -> None:
    """The world's runner refuses any position past the context, pads and drafts included."""
    prompt = np.random.default_rng(length).integers(0, 7, length).tolist()
    request = ask(prompt, max_tokens=500, temperature=1.0, ignore_eos=True)
    expected = plain(request)[0]
    assert len(prompt) + len(expected.tokens) == 64 and expected.finish_reason == "length"
    proposer = Overlong(script([request]), excess=20)
    assert run_one(make_engine(proposer, form=form), request).what == expected.what


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (ask([]), "empty"),
        (ask([1] * 65), "65 tokens.*64"),
        (ask([1, 8]), "token 8 .*outside"),
        (ask([1, -1]), "token -1 .*outside"),
        (ask([1], n=17), "17 choices"),
        (ask([1] * 40, max_tokens=20, n=9), "blocks"),
        (ask([1], stop_ids={8}), "stop_ids"),
        (ask([1], logit_bias={9: 1.0}), "logit_bias"),
        (ask([1], banned_ids={100}), "banned_ids"),
    ],
)
def test_what_can_never_be_served_is_refused_at_the_door(request_: Request, message: str) -> None:
    engine = make_engine()
    with pytest.raises(BadRequest, match=message):
        engine.add(request_)
    assert not engine.busy and engine.step() == []


def test_requests_wait_until_blocks_are_free() -> None:
    """Each needs 8 of 20 blocks: two at a time, first come first served, all of them right."""
    requests = [
        ask([1, 2, seed % 7], seed=seed, max_tokens=28, temperature=1.0, ignore_eos=True) for seed in range(6)
    ]
    runner = make_runner(blocks=20)
    engine = make_engine(Coin(script(requests), vocab=VOCAB, rate=0.7), runner=runner)
    numbers = [engine.add(request) for request in requests]
    outcomes: Outcomes = {}
    order: list[int] = []
    while engine.busy:
        events = engine.step()
        take(outcomes, events)
        engine.check()
        assert len(runner.passes[-1]) <= 2
        order += [event.request_id for event in events if event.finish_reason]
    finish(engine, outcomes)
    assert set(order[:2]) == set(numbers[:2]) and set(order[-2:]) == set(numbers[-2:])
    for number, request in zip(numbers, requests, strict=True):
        assert outcomes[number, 0].what == plain(request)[0].what


def test_more_sequences_than_fit_in_a_pass_take_turns() -> None:
    """12 sequences, 4 a pass: none lags behind, and a prompt that comes later is read in between."""
    form = Form(min_tokens=2, max_rows=8, bitwise=True)
    requests = [ask([1, seed % 7], seed=seed, max_tokens=20, ignore_eos=True) for seed in range(12)]
    engine = make_engine(form=form, runner=make_runner(blocks=200))
    outcomes: Outcomes = {}
    numbers = [engine.add(request) for request in requests]
    lags = []
    for step in range(60):
        take(outcomes, engine.step())
        if step == 20:
            late = engine.add(ask([3] * 30, max_tokens=2))
        if step > 6:
            lengths = [len(outcomes[number, 0].tokens) for number in numbers]
            lags.append(max(lengths) - min(lengths))
        if step == 40:
            assert (late, 0) in outcomes
    assert max(lags) <= 4
    finish(engine, outcomes)


def test_a_cache_that_another_engine_holds_is_named() -> None:
    runner = make_runner(blocks=20)
    first, second = make_engine(runner=runner), make_engine(runner=runner)
    shared = pool_of(first)
    second._admission._pool = shared
    request = with_params(max_tokens=45)
    number = first.add(request)
    first.step()
    other = second.add(request)
    with pytest.raises(OutOfBlocks, match="other engines"):
        second.step()
    second.abort(other)
    first.abort(number)
    assert shared.free == shared.total and shared.promised == 0


def test_admission_counts_choices_and_blocks() -> None:
    pool = BlockPool(blocks=10, block_size=4)
    admission = Admission(pool, Limits(vocab=VOCAB, context=64, eos_ids=frozenset()), 4)
    assert admission.admit([]) == []
    with pytest.raises(BadRequest, match="5 choices"):
        admission.refuse_impossible(ask([1], n=5, max_tokens=1))
    admission.refuse_impossible(ask([1], n=4, max_tokens=6))  # 8 slots with the pad: 2 blocks each
    admission.refuse_impossible(ask([1], n=3, max_tokens=10))  # 12 slots: 9 blocks
    with pytest.raises(BadRequest, match="12 cache blocks"):
        admission.refuse_impossible(ask([1], n=4, max_tokens=10))


# Aborting, at every point.


def test_abort_at_every_point() -> None:
    """Waiting, reading its prompt, decoding, finished: one closing event a choice, all blocks back."""
    request = ask([1, 2, 0, 3, 1, 2, 5, 6, 1], max_tokens=9, temperature=1.0, n=2, ignore_eos=True)
    other = ask([2, 2], seed=5, max_tokens=22, temperature=1.0, ignore_eos=True)
    expected, expected_other = plain(request), plain(other)[0].what
    for point in range(16):
        proposer = Coin(script([request, other]), vocab=VOCAB, rate=0.5)
        engine = make_engine(proposer, prefill_chunk=3)
        kept, gone = engine.add(other), engine.add(request)
        outcomes: Outcomes = {}
        for _ in range(point):
            take(outcomes, engine.step())
        finished = sum(outcome.finish_reason is not None for (n, _), outcome in outcomes.items() if n == gone)
        events = engine.abort(gone)
        take(outcomes, events)
        engine.check()
        assert [event.finish_reason for event in events] == ["aborted"] * (2 - finished)
        assert engine.abort(gone) == [] and engine.abort(999) == []
        finish(engine, outcomes)
        assert outcomes[kept, 0].what == expected_other
        for choice in range(2):
            got = outcomes[gone, choice].tokens
            assert got == expected[choice].tokens[: len(got)]


def test_abort_of_one_that_waits() -> None:
    engine = make_engine(max_sequences=1)
    first, second = engine.add(FREE), engine.add(FREE)
    engine.step()
    [event] = engine.abort(second)
    assert (event.request_id, event.finish_reason, event.tokens) == (second, "aborted", ())
    assert event.summary is not None and event.summary.stats.rounds == 0
    outcomes: Outcomes = {}
    engine.abort(first)
    finish(engine, outcomes)
    assert len(watched_of(engine).forgotten) == 1

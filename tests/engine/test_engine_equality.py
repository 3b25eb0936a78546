"""Plain == speculative, alone == together: whatever proposes, however a pass is shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from pilotfish.draft import ROOT, Draft
from pilotfish.engine.engine import OBSERVED_ROWS
from pilotfish.engine.request import Request
from pilotfish.model.runner import Form
from pilotfish.model.steptimes import StepTimes
from pilotfish.plan.planner import Planner
from pilotfish.propose import Context, Proposer
from pilotfish.propose.spec import build
from pilotfish.sampling import SamplingParams
from pilotfish.testing import Coin, Contrarian, Faults, Nothing, Oracle, OutOfVocabulary, Overlong, run_world
from pilotfish.testing.proposers import Scripted
from tests.engine.engine_worlds import (
    EOS,
    TIGHT,
    VOCAB,
    WIDE,
    ask,
    make_engine,
    make_runner,
    plain,
    run,
    run_one,
    script,
    watched_of,
)

Plain = Callable[[Context], Sequence[int]]


class Bush(Scripted):
    """A tree: the right chain, a wrong sibling at every node, and a long wrong chain."""

    name = "bush"

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        parent = ROOT
        for token in ahead[: budget // 2]:
            parents += [parent, parent]
            tokens += [(token + 1) % VOCAB, token]
            parent = len(tokens) - 1
        count = len(tokens)
        survival = tuple(0.9 ** (1 + node // 2) for node in range(count))
        return Draft(tuple(tokens), tuple(parents), (self.name,) * count, (0,) * count, survival)


PROPOSERS: dict[str, Callable[[Plain], Proposer]] = {
    "nothing": lambda plain: Nothing(),
    "oracle": Oracle,
    "contrarian": lambda plain: Contrarian(plain, vocab=VOCAB),
    "coin": lambda plain: Coin(plain, vocab=VOCAB, rate=0.7),
    "overlong": lambda plain: Overlong(plain, excess=9),
    "out of vocabulary": lambda plain: OutOfVocabulary(plain, vocab=VOCAB),
    "bush": Bush,
    "ngram": lambda plain: build("ngram"),
    "auto": lambda plain: build("auto"),
    "auto, trees": lambda plain: build("auto", trees=True),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"max_tokens": 21, "ignore_eos": True},
    "sampled": {"max_tokens": 21, "temperature": 1.3},
    "everything": {
        "max_tokens": 21,
        "min_tokens": 6,
        "temperature": 1.5,
        "top_k": 6,
        "top_p": 0.95,
        "min_p": 0.02,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.3,
        "frequency_penalty": 0.2,
        "logit_bias": {2: 1.0},
        "banned_ids": {5},
        "stop": ("bab", "cc"),
        "stop_ids": {6},
        "logprobs": 2,
    },
    "two choices": {"max_tokens": 13, "temperature": 1.0, "n": 2},
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("name", PROPOSERS)
def test_speculation_changes_nothing(name: str, setting: dict[str, Any]) -> None:
    requests = [ask([1, 2, 0, 4, 3], seed=seed, **setting) for seed in range(4)]
    engine = make_engine(PROPOSERS[name](script(requests)))
    for request, got in zip(requests, run(engine, requests), strict=True):
        expected = plain(request)
        assert [outcome.what for outcome in got] == [outcome.what for outcome in expected]
        assert [outcome.logprobs for outcome in got] == [outcome.logprobs for outcome in expected]


@pytest.mark.parametrize("seed", range(5))
def test_plain_decoding_is_the_world_without_an_engine(seed: int) -> None:
    params = SamplingParams(max_tokens=20, temperature=1.2, frequency_penalty=0.4, seed=seed)
    runner = make_runner()
    decoded = run_world(runner, Nothing(), params, kind="coupled", prompt=[1, 2, 0], eos_ids=[EOS])  # type: ignore[arg-type]
    request = Request(prompt=(1, 2, 0), params=params, seed=seed)
    assert run_one(make_engine(), request).tokens == decoded.tokens


def test_the_oracle_is_accepted_and_counted() -> None:
    request = ask([1, 2, 0], max_tokens=13, ignore_eos=True)
    runner = make_runner()
    engine = make_engine(Oracle(script([request])), runner=runner)
    outcome = run_one(engine, request)
    assert outcome.summary is not None
    # what was accepted has its keys and values already: only the last token is read again
    assert [(part.start, len(part.tokens)) for [part] in runner.passes] == [(0, 8), (8, 6), (14, 2)]
    stats = outcome.summary.stats
    # 5 nodes a round: 6 + 6 tokens, then the last one alone
    assert (stats.rounds, stats.accepted_tokens, stats.accepted_per_position) == (3, 10, [2] * 5)
    assert outcome.origins == [*["oracle"] * 5, "target"] * 2 + ["target"]
    assert engine.stats == stats and stats.as_dict()["acceptance_rate"] == 1.0
    contrarian = make_engine(Contrarian(script([request]), vocab=VOCAB))
    assert set(run_one(contrarian, request).origins) == {"corrected", "target"}
    assert contrarian.stats.accepted_tokens == 0 and contrarian.stats.corrected_rounds == 12


def mixed_requests() -> list[Request]:
    longest = [int(token) for token in np.random.default_rng(3).integers(0, 7, 30)]
    return [
        ask(longest[:1], seed=1, max_tokens=9),
        ask(longest, seed=2, max_tokens=17, temperature=1.0, ignore_eos=True),
        ask(longest[:7], seed=3, max_tokens=1),
        ask(longest[5:21], seed=4, max_tokens=12, temperature=0.7, presence_penalty=1.0),
        ask(longest[:2], seed=5, max_tokens=25, temperature=1.4, n=3, stop="ba"),
        ask(longest[9:22], seed=6, max_tokens=14, min_tokens=9, logprobs=3, logprobs_mode="processed"),
        ask(longest[:16], seed=7, max_tokens=0),
        ask(longest[:25], seed=8, max_tokens=30, top_k=3, temperature=2.0, n=2),
    ]


@pytest.mark.parametrize("form", [TIGHT, WIDE], ids=["tight", "wide"])
@pytest.mark.parametrize("draft", ["none", "coin", "auto"])
def test_together_is_alone(draft: str, form: Form) -> None:
    requests = mixed_requests()
    proposer = Coin(script(requests), vocab=VOCAB, rate=0.8) if draft == "coin" else build(draft)
    steps = StepTimes({1: 1.0, 2: 1.0, 8: 1.5, 9: 3.0, 16: 3.2})
    for planner in (None, Planner(steps, min_tokens=form.min_tokens)):
        engine = make_engine(proposer, form=form, planner=planner, max_sequences=6, prefill_chunk=5)
        together = run(engine, requests)
        for request, got in zip(requests, together, strict=True):
            assert [outcome.what for outcome in got] == [outcome.what for outcome in plain(request)]


@pytest.mark.parametrize("form", [TIGHT, WIDE], ids=["tight", "wide"])
def test_chunks_of_every_size(form: Form) -> None:
    prompt = [int(token) for token in np.random.default_rng(4).integers(0, 7, 19)]
    request = ask(prompt, max_tokens=7, temperature=1.0, n=2, ignore_eos=True)
    expected = [outcome.what for outcome in plain(request)]
    for chunk in range(21):
        runner = make_runner()
        engine = make_engine(Oracle(script([request])), runner=runner, form=form, prefill_chunk=chunk)
        assert [outcome.what for outcome in run(engine, [request])[0]] == expected
        reads = [len(part.tokens) for batch in runner.passes for part in batch if part.start < len(prompt)]
        assert max(reads) <= max(chunk or form.max_rows, form.min_tokens)


def test_passes_have_the_exact_form() -> None:
    """Two tokens a sequence or more, never more rows than were proven, in every pass."""
    requests = mixed_requests()
    # Lone tokens are noisy, as the CPU's are: only pads keep the rows right.
    runner = make_runner(faults=Faults(lone_noise=0.5))
    engine = make_engine(Coin(script(requests), vocab=VOCAB, rate=0.5), runner=runner, prefill_chunk=3)
    for request, got in zip(requests, run(engine, requests), strict=True):
        assert [outcome.what for outcome in got] == [outcome.what for outcome in plain(request)]
    for batch in runner.passes:
        lengths = [len(part.tokens) for part in batch]
        assert min(lengths) >= TIGHT.min_tokens and sum(lengths) <= TIGHT.max_rows
    lone = plain(requests[1], runner=make_runner(faults=Faults(lone_noise=0.5)), form=WIDE)
    assert lone[0].what != plain(requests[1])[0].what  # so the fault would have been seen


def test_choices_share_the_prompt_and_go_their_own_ways() -> None:
    request = ask([1, 2, 0, 3, 3, 1], max_tokens=12, temperature=1.5, n=4, ignore_eos=True)
    runner = make_runner()
    engine = make_engine(Coin(script([request]), vocab=VOCAB, rate=0.6), runner=runner)
    choices = run(engine, [request])[0]
    assert len({tuple(choice.tokens) for choice in choices}) == 4
    first = runner.passes[0]
    assert len(first) == 1 and list(first[0].tokens[:6]) == [1, 2, 0, 3, 3, 1]  # one prefill for all
    shared = {part.blocks[0] for part in runner.passes[1]}
    tails = [part.blocks[1] for part in runner.passes[1]]
    assert len(shared) == 1 and len(set(tails)) == len(tails)
    assert engine.stats.rounds == sum(c.summary.stats.rounds for c in choices if c.summary)
    # choice 0 is the request with n = 1
    assert (
        choices[0].what == plain(ask(request.prompt, max_tokens=12, temperature=1.5, ignore_eos=True))[0].what
    )


def test_logprobs_are_a_plain_pass_s() -> None:
    request = ask([1, 2, 0], max_tokens=24, temperature=1.0, ignore_eos=True, logprobs=3)
    engine = make_engine(Coin(script([request]), vocab=VOCAB, rate=0.7))
    outcome = run_one(engine, request)
    assert {"coin", "corrected", "target"} == set(outcome.origins)
    runner, past = make_runner(), list(request.prompt)
    for found in outcome.logprobs:
        row = runner.row(past).astype(np.float64)
        expected = row - np.log(np.exp(row).sum())
        assert found.logprob == pytest.approx(expected[found.token], abs=1e-6)
        best = np.argsort(-expected)[:3].tolist()
        assert [token for token, _ in found.top] == best
        assert all(type(token) is int and type(value) is float for token, value in found.top)
        past.append(found.token)
    assert [found.token for found in outcome.logprobs] == outcome.tokens


def test_the_planner_and_survival_learn_to_rest() -> None:
    """Always wrong drafts on a machine where rows cost: soon hardly any are verified."""
    requests = [
        ask([1, 2, 0], seed=seed, max_tokens=40, temperature=1.0, ignore_eos=True) for seed in range(3)
    ]
    costly = Planner(StepTimes({1: 1.0, 2: 1.8, 16: 9.0}))
    engine = make_engine(Contrarian(script(requests), vocab=VOCAB), planner=costly, form=WIDE)
    run(engine, requests)
    assert engine.stats.draft_tokens < 0.5 * engine.stats.rounds
    lucky = make_engine(Oracle(script(requests)), planner=costly, form=WIDE)
    run(lucky, requests)
    assert lucky.stats.acceptance_rate == 1.0 and lucky.stats.draft_tokens > 0


def test_observations_name_the_best_ids() -> None:
    request = ask([1, 2, 0], max_tokens=9, ignore_eos=True)
    proposer = Coin(script([request]), vocab=VOCAB, rate=0.5)
    proposer.top_k = 3
    engine = make_engine(proposer)
    run(engine, [request])
    runner = make_runner()
    for seen in watched_of(engine).observations:
        assert seen.top_ids.shape == (min(len(seen.draft) + 1, OBSERVED_ROWS), 3)
    last = watched_of(engine).observations[-1]
    past = last.sequence.tokens[: -len(last.verdict.emitted(last.draft))]
    for row in range(len(last.top_ids)):
        best = np.argsort(-runner.row([*past, *last.draft.tokens[:row]]))[:3]
        assert last.top_ids[row].tolist() == best.tolist()

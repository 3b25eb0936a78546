"""What goes wrong in one place stays in one place: NaN rows, bad drafts, failing passes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from pilotfish.draft import EMPTY, Draft
from pilotfish.engine.request import Request
from pilotfish.errors import BadDraft
from pilotfish.model.runner import Slice
from pilotfish.plan.planner import MOST_NODES, Planner
from pilotfish.propose import Context, Nothing
from pilotfish.sampling import Noise
from pilotfish.testing import Coin, Contrarian, Faults, MarkovTarget, Oracle, Sampled, WorldRunner
from tests.engine.engine_worlds import (
    PIECES,
    VOCAB,
    WIDE,
    Outcomes,
    ask,
    finish,
    make_engine,
    make_runner,
    plain,
    run,
    run_one,
    script,
    take,
)


def requests_at(temperature: float) -> list[Request]:
    return [
        ask([6, 4, 2, 0, 6, seed], seed=seed, max_tokens=16, temperature=temperature, ignore_eos=True)
        for seed in range(5)
    ]


REQUESTS = requests_at(1.0)


@pytest.mark.parametrize("verification", ["coupled", "rejection", "block"])
@pytest.mark.parametrize("place", [0, 1, 4, 15])
def test_nan_in_one_sequence_leaves_the_others_alone(place: int, verification: str) -> None:
    """The row after `place` tokens of one request is NaN: the tokens before stand, and are counted."""
    requests = requests_at(0.0 if verification == "block" else 1.0)  # block keeps the law, not the text
    clean = [plain(request)[0] for request in requests]
    faults = Faults(nan_after=(*requests[2].prompt, *clean[2].tokens[:place]))
    for proposer in (Nothing(), Oracle(script(requests))):
        engine = make_engine(proposer, runner=make_runner(faults=faults), verification=verification)
        outcomes = [outcome for [outcome] in run(engine, requests)]
        failed = outcomes.pop(2)
        assert [outcome.what for outcome in outcomes] == [clean[index].what for index in (0, 1, 3, 4)]
        assert failed.finish_reason == "error" and "nan" in str(failed.error)
        if verification == "block":  # it looks at a whole draft before it takes a token
            assert failed.tokens == clean[2].tokens[: len(failed.tokens)]
        else:
            assert failed.tokens == clean[2].tokens[:place]
        assert failed.text == "".join(PIECES[token] for token in failed.tokens)


def test_nan_that_the_walk_does_not_reach_does_no_harm() -> None:
    request = REQUESTS[0]
    tokens = plain(request)[0].tokens
    wrong = (*request.prompt, *tokens[:4], (tokens[4] + 1) % VOCAB)
    runner = make_runner(faults=Faults(nan_after=wrong))
    engine = make_engine(Contrarian(script([request]), vocab=VOCAB), runner=runner)
    outcome = run_one(engine, request)
    assert outcome.tokens == tokens and outcome.error is None


def test_a_prompt_whose_row_is_nan_fails_all_its_choices() -> None:
    request = ask([1, 2], max_tokens=4, n=3)
    outcomes = run(make_engine(runner=make_runner(faults=Faults(nan_after=(1, 2)))), [request])[0]
    assert [outcome.finish_reason for outcome in outcomes] == ["error"] * 3


def test_a_failing_pass_can_be_run_again_or_given_up() -> None:
    request = REQUESTS[1]
    for number in range(4):
        engine = make_engine(runner=make_runner(faults=Faults(failing_pass=number)))
        engine.add(request)
        outcomes: Outcomes = {}
        with pytest.raises(RuntimeError, match="on purpose"):
            finish(engine, outcomes)
        engine.check()
        finish(engine, outcomes)  # the pass is tried again
        assert [outcome.what for outcome in outcomes.values()] == [plain(request)[0].what]
        engine = make_engine(runner=make_runner(faults=Faults(failing_pass=number)))
        added = engine.add(request)
        outcomes = {}
        with pytest.raises(RuntimeError, match="on purpose"):
            finish(engine, outcomes)
        take(outcomes, engine.abort(added))
        finish(engine, outcomes)


class Junk(Nothing):
    """Drafts of nonsense: negative, huge, foreign ids, over any budget."""

    name = "junk"

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        drafts = []
        for sequence in sequences:
            random = np.random.default_rng(len(sequence.tokens))
            tokens = random.integers(-3, VOCAB + 3, int(random.integers(0, 4 * budget))).tolist()
            drafts.append(Draft.chain([*tokens, VOCAB, 10**9], source="junk") if tokens else EMPTY)
        return drafts


def test_junk_drafts_change_nothing() -> None:
    runner = make_runner()
    engine = make_engine(Junk(), runner=runner)
    for request, [outcome] in zip(REQUESTS, run(engine, REQUESTS), strict=True):
        assert outcome.what == plain(request)[0].what
    assert engine.stats.draft_tokens > 0
    assert max(len(part.wanted) for batch in runner.passes for part in batch) <= 6
    runner = make_runner()
    run(make_engine(Junk(), runner=runner, planner=Planner(None), form=WIDE), REQUESTS)
    assert max(len(part.wanted) for batch in runner.passes for part in batch) <= MOST_NODES + 1


class Lawless(Nothing):
    """Under rejection: a draft whose law gives its own token no probability."""

    name = "lawless"

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        law = np.eye(VOCAB)[0]
        return [
            Draft.chain([1], source="lawless", laws=[law]) if sequence.tokens[5] == 3 else EMPTY
            for sequence in sequences
        ]


def test_a_broken_law_ends_its_sequence_only() -> None:
    engine = make_engine(Lawless(), verification="rejection")
    for index, [outcome] in enumerate(run(engine, REQUESTS)):
        assert outcome.finish_reason == ("error" if index == 3 else "length")
    coupled = make_engine(Lawless())
    assert run(coupled, REQUESTS)[3][0].what == plain(REQUESTS[3])[0].what  # laws are not looked at


# The world's own runner: its cache can be got wrong, and shows it.


def rows_of(runner: WorldRunner, **part: object) -> np.ndarray:
    return runner.forward([Slice(**part)]).logits[0]


def test_the_runner_computes_rows_from_its_cache() -> None:
    runner = make_runner()
    rows = rows_of(runner, tokens=[1, 2, 3, 4, 5], start=0, blocks=[7, 2], wanted=range(5))
    for count in range(5):
        assert (rows[count] == runner.row([1, 2, 3, 4, 5][: count + 1])).all()
    runner.copy_block(2, 9)
    again = rows_of(runner, tokens=[6], start=5, blocks=[7, 9], wanted=range(1))
    assert (again[0] == runner.row([1, 2, 3, 4, 5, 6])).all()
    wrong_table = rows_of(runner, tokens=[6], start=5, blocks=[2, 9], wanted=range(1))
    assert np.isnan(wrong_table).all()  # block 2 holds one token, three slots were never written
    # A pass clears the rest of its last block: to come back is to write again.
    rows_of(runner, tokens=[0], start=4, blocks=[7, 2], wanted=range(1))
    stale = rows_of(runner, tokens=[6], start=6, blocks=[7, 2], wanted=range(1))
    assert np.isnan(stale).all()


def test_the_runner_refuses_to_go_out_of_bounds() -> None:
    runner = make_runner(context=8)
    for part in (
        {"tokens": [1] * 9, "start": 0, "blocks": [0, 1, 2]},
        {"tokens": [1] * 5, "start": 0, "blocks": [0]},
        {"tokens": [VOCAB], "start": 0, "blocks": [0]},
        {"tokens": [], "start": 0, "blocks": [0]},
    ):
        with pytest.raises(AssertionError):
            rows_of(runner, wanted=range(0), **part)


def test_forks_that_forget_to_copy_are_seen() -> None:
    """The engine's equality tests could not see a missing copy if this did not."""

    class Forgetful(WorldRunner):
        def copy_block(self, source: int, destination: int) -> None:
            pass

    request = ask([1, 2, 3], max_tokens=6, temperature=1.0, n=2)
    runner = Forgetful(MarkovTarget.random(seed=11, vocab=VOCAB, order=2), depends_on_past=0.5)
    outcomes = run(make_engine(runner=runner), [request])[0]
    assert outcomes[1].finish_reason == "error"


def test_a_sampled_tree_is_named_by_the_engine() -> None:
    request = ask([1, 2], max_tokens=6, temperature=1.0)
    table = MarkovTarget.random(seed=5, vocab=VOCAB)
    tree = Sampled(table, request.params, Noise(1, 0), widths=(2, 1))
    engine = make_engine(tree, verification="rejection")
    number = engine.add(request)
    with pytest.raises(BadDraft, match="tree"):
        engine.step()
    engine.abort(number)
    finish(engine, {})


def test_coin_rates_show_in_the_counts() -> None:
    engine = make_engine(Coin(script(REQUESTS), vocab=VOCAB, rate=0.6))
    run(engine, REQUESTS)
    stats = engine.stats
    assert 0 < stats.accepted_tokens < stats.draft_tokens
    assert stats.emitted_tokens == 80 == stats.accepted_tokens + stats.rounds
    assert stats.drafted_by_source == {"coin": stats.draft_tokens}

from __future__ import annotations

import pytest
from propose_worlds import Target, Text

from pilotfish.draft import EMPTY
from pilotfish.errors import BadRequest
from pilotfish.propose.replay import Replay

OUTPUT = [k % 50 for k in range(4000)]
RECORD: dict[tuple[int, ...], list[int]] = {(1, 2): OUTPUT}


def test_a_perfect_replay_is_always_right() -> None:
    target = Target([1, 2], OUTPUT[:41])
    target.run(Replay(1.0, RECORD), 3)
    assert [len(draft) for draft in target.drafts[:10]] == [3] * 10
    assert len(target.drafts) == 11


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.7])
def test_each_token_is_right_at_the_rate(rate: float) -> None:
    proposer = Replay(rate, RECORD)
    [draft] = proposer.propose([Text([1, 2], 2)], len(OUTPUT))
    right = sum(a == b for a, b in zip(draft.tokens, OUTPUT, strict=True)) / len(OUTPUT)
    assert abs(right - rate) < 0.03
    assert all(0 <= token < 50 for token in draft.tokens)
    assert draft.survival[:2] == (rate, rate**2)


def test_corruption_depends_on_place_and_seed_alone() -> None:
    def told(seed: int, done: int) -> tuple[int, ...]:
        [draft] = Replay(0.5, RECORD, seed=seed).propose([Text([1, 2, *OUTPUT[:done]], 2)], 200 - done)
        return draft.tokens

    assert told(0, 0) == told(0, 0)
    assert told(0, 0)[50:] == told(0, 50)
    assert told(0, 0) != told(1, 0)


def test_functions_serve_as_recordings() -> None:
    assert Replay(1.0, lambda prompt: [7, 8]).propose([Text([3], 1)], 5)[0].tokens == (7, 8)


def test_without_a_recording_nothing_is_said() -> None:
    assert Replay(1.0, RECORD).propose([Text([9], 1)], 3) == [EMPTY]
    assert Replay(1.0, lambda prompt: None).propose([Text([9], 1)], 3) == [EMPTY]


def test_after_leaving_the_recording_nothing_is_said() -> None:
    proposer, text = Replay(1.0, RECORD), Text([1, 2, 0, 1], 2)
    assert len(proposer.propose([text], 3)[0]) == 3
    text.tokens.append(49)
    assert proposer.propose([text], 3) == [EMPTY]
    text.tokens.append(3)
    assert proposer.propose([text], 3) == [EMPTY]


def test_the_end_of_the_recording() -> None:
    proposer = Replay(1.0, {(1,): [5, 6]})
    assert proposer.propose([Text([1, 5], 1)], 3)[0].tokens == (6,)
    assert proposer.propose([Text([1, 5, 6], 1)], 3) == [EMPTY]
    assert proposer.propose([Text([1, 5, 6, 7], 1)], 3) == [EMPTY]


def test_forget_drops_everything_of_a_sequence() -> None:
    proposer, text = Replay(1.0, RECORD), Text([1, 2], 2)
    proposer.propose([text], 3)
    proposer.forget(text)
    assert not proposer._outputs
    assert not proposer._checked


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan")])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(BadRequest, match="from 0 to 1"):
        Replay(rate, RECORD)

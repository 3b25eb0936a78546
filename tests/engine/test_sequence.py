"""One choice: what is uncomputed, what remains, what ends it."""

from __future__ import annotations

import numpy as np
import pytest

from pilotfish.draft import EMPTY, Draft, Verdict
from pilotfish.engine.sequence import Limits, Sequence
from pilotfish.engine.stats import Stats
from pilotfish.engine.text import GrowingText
from pilotfish.errors import PilotfishError
from tests.engine.engine_worlds import EOS, VOCAB, Letters, ask

ROW = np.linspace(0, 1, VOCAB, dtype=np.float32)


def make(**params: object) -> Sequence:
    request = ask([1, 2], **({"max_tokens": 4} | params))
    limits = Limits(vocab=VOCAB, context=16, eos_ids=frozenset({EOS}))
    return Sequence(
        request, id=0, request_id=0, text=GrowingText(Letters(), request.params.stop), limits=limits
    )


def test_counting() -> None:
    sequence = make()
    assert (sequence.uncomputed, sequence.remaining, sequence.position) == (2, 4, 2)
    sequence.computed = 2
    assert sequence.append(3, ROW) is False
    assert (sequence.uncomputed, sequence.remaining, sequence.position, sequence.output) == (1, 3, 3, [3])
    sequence.push(5)
    assert sequence.position == 4 and sequence.pop() == 5 and sequence.position == 3
    long = make(max_tokens=100)
    assert long.remaining == 14


@pytest.mark.parametrize(
    ("params", "tokens", "reason", "text"),
    [
        ({}, [0, EOS], "stop", "a"),
        ({"ignore_eos": True}, [0, EOS, 0, 0], "length", "aaa"),
        ({"ignore_eos": True, "stop_ids": {EOS}}, [0, EOS], "stop", "a"),
        ({"stop_ids": {3}}, [0, 3], "stop", "a"),
        ({"stop": "cc"}, [0, 2, 2], "stop", "a"),
        ({"stop": "cc"}, [0, 0, 2, 2], "stop", "aa"),  # a stop at the very limit is a stop
        ({"max_tokens": 2, "stop_ids": {3}}, [0, 3], "stop", "a"),
        ({"min_tokens": 3, "stop": "a"}, [0, 0, 0], "stop", "aa"),
        ({}, [0, 1, 2, 3], "length", "abcab"),
    ],
)
def test_ends(params: dict[str, object], tokens: list[int], reason: str, text: str) -> None:
    sequence = make(**params)
    ended = [sequence.append(token, ROW) for token in tokens]
    assert ended == [False] * (len(tokens) - 1) + [True]
    assert (sequence.finish_reason, sequence.text.value) == (reason, text)


def test_half_a_character_at_the_limit_can_complete_a_stop_string() -> None:
    class Half(Letters):
        def finish(self) -> str:
            return "\ufffd"

    for stop, reason, text in (("c\ufffd", "stop", "a"), ("x", "length", "ac\ufffd")):
        sequence = make(max_tokens=2, stop=stop)
        sequence.text = GrowingText(Half(), sequence.request.params.stop)
        assert [sequence.append(token, ROW) for token in (0, 2)] == [False, True]
        assert (sequence.finish_reason, sequence.text.value) == (reason, text)


def test_forks_count_themselves() -> None:
    parent = make(n=3)
    parent.computed = 2
    children = [parent.fork(id=number, text=GrowingText(Letters(), ())) for number in (5, 6)]
    assert [child.choice for child in children] == [1, 2] and parent.forks == 0
    assert [child.computed for child in children] == [2, 2]
    assert (
        len({child.noise.uniform(position=3, purpose=0, round_start=0) for child in [parent, *children]}) == 3
    )
    children[0].append(0, ROW)
    assert parent.output == [] and children[1].output == []


def test_stats_by_hand() -> None:
    draft = Draft.chain([1, 2, 3], source="ngram")
    stats, other = Stats(), Stats()
    stats.count(draft, Verdict((0, 1), 5))
    stats.count(draft, Verdict((0, 1, 2), 5))
    other.count(EMPTY, Verdict((), 4))
    other.count(draft, Verdict((0,), 2))  # the token that ended the request was drafted: not corrected
    stats.add(other)
    stats.check()
    assert (stats.rounds, stats.drafted_rounds, stats.draft_tokens) == (4, 3, 9)
    assert (stats.accepted_tokens, stats.corrected_rounds, stats.emitted_tokens) == (6, 1, 10)
    assert stats.accepted_per_position == [3, 2, 1]
    assert stats.mean_acceptance_length == 3.0 and stats.acceptance_rate == pytest.approx(2 / 3)
    assert Stats().mean_acceptance_length == 1.0 and Stats().acceptance_rate == 0.0
    stats.rounds += 1
    with pytest.raises(PilotfishError, match="counts disagree"):
        stats.check()

from __future__ import annotations

import pytest

from pilotfish.errors import BadRequest
from pilotfish.propose.joined import Joined
from pilotfish.propose.replay import Replay
from pilotfish.propose.spec import build


def record(prompt: tuple[int, ...]) -> list[int]:
    return [1, 2, 3]


@pytest.mark.parametrize("name", ["none", "ngram", "suffix", "recycle"])
def test_names(name: str) -> None:
    assert build(name).name == name


def test_auto_and_joined() -> None:
    auto = build("auto")
    assert isinstance(auto, Joined)
    assert auto.name == "suffix+recycle"
    assert auto.top_k == 1
    assert build("ngram + recycle").name == "ngram+recycle"


def test_replay_takes_a_rate() -> None:
    proposer = build("replay:0.7", record=record)
    assert isinstance(proposer, Replay)
    assert proposer.rate == 0.7


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sufix", "did you mean 'suffix'.*known are auto, none, ngram, suffix, recycle, replay:RATE"),
        ("suffix+ngrm", "unknown draft 'ngrm' in 'suffix\\+ngrm'; did you mean 'ngram'"),
        ("zzzz", "unknown draft 'zzzz'; known are"),
        ("", "unknown draft ''"),
        ("suffix+", "unknown draft ''"),
        ("eagle:head.gguf", "'eagle:head.gguf' is not built yet"),
        ("model:x", "not built yet"),
        ("parallel:x", "not built yet"),
        ("mtp", "not built yet"),
        ("shallow:4", "not built yet"),
        ("replay:1.5", "'replay:1.5'.*from 0 to 1"),
        ("replay", "from 0 to 1"),
        ("replay:nan", "from 0 to 1"),
        ("replay:much", "from 0 to 1"),
        ("none+suffix", "joins none with others"),
        ("suffix:3", "takes no argument"),
        ("suffix+suffix", "names a proposer twice"),
        ("suffix+auto", "unknown draft 'auto' in"),
    ],
)
def test_refusals_say_what_to_do(spec: str, message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        build(spec, record=record)


def test_replay_needs_recordings() -> None:
    with pytest.raises(BadRequest, match="give `record`"):
        build("replay:0.5")


def test_trees_reach_the_parts() -> None:
    joined = build("suffix+recycle", trees=True)
    assert isinstance(joined, Joined)
    assert joined.trees
    assert joined._proposers[1].trees  # type: ignore[attr-defined]

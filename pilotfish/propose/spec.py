"""Proposers by name, as `--draft` gives them.

    build("suffix+recycle")
    build("replay:0.7", record=recordings.get)

Knows the names and their arguments, nothing of what they do.
"""

from __future__ import annotations

from difflib import get_close_matches

from pilotfish.errors import BadRequest
from pilotfish.propose import Nothing, Proposer
from pilotfish.propose.joined import Joined
from pilotfish.propose.ngram import Ngram
from pilotfish.propose.recycle import Recycle
from pilotfish.propose.replay import Record, Replay
from pilotfish.propose.suffix import Suffix

AUTO = "suffix+recycle"
PLAIN = ("none", "ngram", "suffix", "recycle")  # names without an argument
NOT_BUILT = ("model", "eagle", "parallel", "mtp", "shallow")
SHOWN = ("auto", *PLAIN, "replay:RATE")


def build(spec: str, *, record: Record | None = None, trees: bool = False) -> Proposer:
    """The proposer that a spec names: one name, or several joined with "+".

    `record` gives the recorded output of a prompt, for replay. With `trees` the drafts may branch;
    without, every draft is a chain. Raises BadRequest for anything else than a known spec.
    """
    names = [part.strip() for part in (AUTO if spec.strip() == "auto" else spec).split("+")]
    if "none" in names and len(names) > 1:
        raise BadRequest(f"the draft {spec!r} joins none with others; use none alone, or leave it out")
    proposers = [_one(name, spec, record, trees) for name in names]
    return proposers[0] if len(proposers) == 1 else Joined(proposers, trees=trees)


def _one(name: str, spec: str, record: Record | None, trees: bool) -> Proposer:
    kind, colon, argument = name.partition(":")
    if kind == "replay":
        return _replay(name, argument, record)
    if kind in NOT_BUILT:
        raise BadRequest(f"the draft {name!r} is not built yet; use one of {', '.join(SHOWN)}")
    if kind in PLAIN and colon:
        raise BadRequest(f"the draft {kind!r} takes no argument, found {name!r}; write {kind}")
    match name:
        case "none":
            return Nothing()
        case "ngram":
            return Ngram()
        case "suffix":
            return Suffix()
        case "recycle":
            # A chain only ever takes the best id of a row, and ranking more costs a tenth of a millisecond.
            return Recycle(width=8 if trees else 1, trees=trees)
    near = get_close_matches(kind, [*PLAIN, "auto", "replay", *NOT_BUILT], n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    where = f" in {spec!r}" if name != spec else ""
    raise BadRequest(f"unknown draft {name!r}{where}; {hint}known are {', '.join(SHOWN)}, joined with +")


def _replay(name: str, argument: str, record: Record | None) -> Replay:
    try:
        rate = float(argument)
    except ValueError:
        rate = -1.0
    if not 0.0 <= rate <= 1.0:
        raise BadRequest(f"the draft {name!r} has no usable rate; give one from 0 to 1, as in replay:0.7")
    if record is None:
        raise BadRequest(f"the draft {name!r} replays recorded outputs, and none are at hand; give `record`")
    return Replay(rate, record)

"""A study proposer: replays a recorded plain output, wrong at a chosen rate.

    proposer = Replay(0.7, {prompt_tokens: output_tokens})
    proposer.propose([sequence], budget=3)     # each token right with probability 0.7

Whether a place is corrupted depends on (place, seed) alone, so a run can be repeated. The recording
of a prompt comes from a mapping or a function; without one nothing is proposed. It must be a plain
output of the same request; where the text has left it nothing is proposed either.

Knows nothing of how the recording was made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pilotfish.draft import EMPTY, Draft
from pilotfish.errors import BadRequest
from pilotfish.propose import Context, Observation

Record = Callable[[tuple[int, ...]], Sequence[int] | None]

_MASK = (1 << 64) - 1


class Replay:
    """Replays recordings at an acceptance rate of `rate` per token.

    `forget` drops the recording of a sequence; `observe` has nothing to learn.
    """

    name = "replay"
    calibrated = False
    top_k = 0

    def __init__(
        self,
        rate: float,
        recordings: Mapping[tuple[int, ...], Sequence[int]] | Record,
        *,
        seed: int = 0,
    ) -> None:
        if not 0.0 <= rate <= 1.0:
            raise BadRequest(f"replay was asked for rate {rate}; give a rate from 0 to 1, as in replay:0.7")
        self.rate = rate
        self.seed = seed
        self._record: Record = recordings.get if isinstance(recordings, Mapping) else recordings
        self._outputs: dict[int, list[int]] = {}
        self._checked: dict[int, int] = {}  # by sequence: output tokens known to follow the recording

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self._propose(sequence, budget) for sequence in sequences]

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def forget(self, sequence: Context) -> None:
        self._outputs.pop(sequence.id, None)
        self._checked.pop(sequence.id, None)

    def _propose(self, sequence: Context, budget: int) -> Draft:
        tokens, start = sequence.tokens, sequence.prompt_length
        output = self._outputs.get(sequence.id)
        if output is None:
            output = list(self._record(tuple(tokens[:start])) or ())
            self._outputs[sequence.id] = output
        done, checked = len(tokens) - start, self._checked.get(sequence.id, 0)
        if budget < 1 or tokens[start + checked :] != output[checked:done]:
            return EMPTY
        self._checked[sequence.id] = done
        ids = [self._told(done + k, token) for k, token in enumerate(output[done : done + budget])]
        survival = [self.rate**k for k in range(1, len(ids) + 1)]
        return Draft.chain(ids, source=self.name, survival=survival) if ids else EMPTY

    def _told(self, place: int, token: int) -> int:
        """The token at a place of the output, or a wrong one. Wrong ones are lower ids (1 for 0),
        which every vocabulary has, so that its size need not be known."""
        if _uniform(place, self.seed) < self.rate:
            return token
        return _mix(place, self.seed + 1) % token if token > 0 else 1


def _mix(place: int, seed: int) -> int:
    """64 well-mixed bits of (place, seed): splitmix64."""
    bits = (place * 0x9E3779B97F4A7C15 + seed * 0xD1B54A32D192ED03 + 0x632BE59BD9B4E019) & _MASK
    bits = ((bits ^ bits >> 30) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & _MASK
    return bits ^ bits >> 31


def _uniform(place: int, seed: int) -> float:
    return (_mix(place, seed) >> 11) / (1 << 53)

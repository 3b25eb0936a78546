"""Chance: the random decisions of verification, and the only place that knows their keys.

No number may be looked at twice, or the law breaks. Every decision about position t of a round
that began at committed length s reads its own key:

    decision                                 purpose    keyed by
    the target's own token                   TARGET     t, token id
    is trial j of a sampled draft accepted?  ACCEPT     t, s, j
    the token of a residual law              RESIDUAL   t, s
    (a drafter that keeps its laws           DRAFT      t, s; it must not look at TARGET)

- ACCEPT and DRAFT need s. Block verification decides with the whole draft in view, so it has looked
  at numbers of positions that it then does not commit; the next round, with a larger s, comes to the
  same positions again. (Token by token, a decision depends on nothing to its right and s would not be
  needed; it is there so that no proposer or planner that looks ahead can make it needed.)
- TARGET needs no s: a position's TARGET noise is read only when its token is committed at once, so
  no later round comes there. Hence a draft of point masses gives under `rejection` the very text of
  plain decoding for the seed, whatever it holds.
- One node is visited at each depth, so two nodes of one depth never compete for a key.

    chance = Keyed(noise, round_start=continuation.position)
    chance.accepts(0.7, position=12)

The exact tests put an object in its place that goes through all outcomes (pilotfish.testing.exact).
Knows nothing of drafts and rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pilotfish.sampling import Noise, Purpose, Scores, draw, draw_from_law
from pilotfish.verify.continuation import Law


class Chance(Protocol):
    """The three random decisions a verification rule may take."""

    def target_token(self, scores: Scores, *, position: int) -> int:
        """The target's own token at a position: what plain decoding draws there."""
        ...

    def accepts(self, probability: float, *, position: int, trial: int = 0) -> bool:
        """True with a probability; `trial` counts the siblings tried at one position."""
        ...

    def residual_token(self, residual_law: Law, *, position: int) -> int:
        """A token of what the target still asks for when sampled drafts were refused."""
        ...


@dataclass(frozen=True)
class Keyed:
    """Chance as the engine uses it: a pure function of the request's seed and the keys above."""

    noise: Noise
    round_start: int

    def target_token(self, scores: Scores, *, position: int) -> int:
        return draw(scores, self.noise, position)

    def accepts(self, probability: float, *, position: int, trial: int = 0) -> bool:
        # uniform is in the open interval: probability 0 never passes, probability 1 always does
        uniform = self.noise.uniform(
            position=position, purpose=Purpose.ACCEPT, round_start=self.round_start, index=trial
        )
        return uniform < probability

    def residual_token(self, residual_law: Law, *, position: int) -> int:
        return draw_from_law(
            residual_law,
            self.noise,
            position=position,
            purpose=Purpose.RESIDUAL,
            round_start=self.round_start,
        )

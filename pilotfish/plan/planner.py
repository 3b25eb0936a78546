"""The planner: how many draft nodes are worth verifying in this pass.

It admits nodes in the order of their survival and stops where the expected emitted tokens per
second of the whole pass are highest (goodput: Liu et al. 2024, arXiv 2406.14066). All prefix
sizes are tried, since step times are a staircase: a few nodes more can be free, one more a cliff.
Where a change of the row count costs, it is changed only when that has become worth it; row counts
that have a graph of their own cost no change.

    Planner(steps).cut([draft], read=[1], other_rows=0)

No draft at all is always allowed. Drafts that carry laws are only cut where the pass has no room,
all at one depth: whether such a node is verified may not depend on the token that was drawn.
Knows nothing of tokens or models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilotfish.draft import EMPTY, Draft
from pilotfish.model.steptimes import StepTimes
from pilotfish.plan.prices import Prices

MOST_NODES = 15  # of one sequence: no drafter at hand survives further


def best_chain(draft: Draft) -> Draft:
    """The root-to-leaf chain with the most expected accepted tokens (the sum of survival)."""
    if draft.is_chain:
        return draft
    worth: list[float] = []
    for node, parent in enumerate(draft.parents):
        worth.append(draft.survival[node] + (worth[parent] if parent >= 0 else 0.0))
    return draft.keep(draft.path(max(range(len(draft)), key=worth.__getitem__)))


@dataclass(frozen=True)
class _Plan:
    """The nodes kept of each chain, the rows of the pass they make, the tokens to be expected of it."""

    kept: tuple[int, ...]
    rows: int
    expected: float


class Planner:
    """Cuts drafts to what pays. One for each engine: it remembers the row count of the last pass.

    steps       step times by rows to begin with; None: nothing is priced
    length      a fixed number of nodes instead of a price, or None
    min_tokens  tokens every sequence brings anyway: draft nodes up to there are free

    After `cut`, `rows` is the row count that the pass should have: more than its tokens where pads
    are cheaper than a change of shape. Tell `took` how long it was.
    """

    def __init__(self, steps: StepTimes | None, length: int | None = None, min_tokens: int = 1) -> None:
        self._prices = None if steps is None else Prices(steps)
        self._alone = False  # one sequence decodes, and nothing else
        self._switched = False  # the pass to come has another shape than the one before
        self._length = length
        self._least = min_tokens
        self._regret = 0.0  # seconds lost so far by keeping to row counts that need no change
        self._last = 0  # rows of the last pass that had no graph of its own
        self.rows = 0

    @property
    def budget(self) -> int:
        """The most nodes worth asking a proposer for."""
        return MOST_NODES if self._length is None else self._length

    def cut(self, drafts: Sequence[Draft], *, read: Sequence[int], other_rows: int, room: int) -> list[Draft]:
        """Cut drafts (chains, or trees, of which the best chain is taken) to what pays in one pass.

        read        tokens each sequence reads before its draft
        other_rows  rows of the pass that have nothing to do with drafts
        room        most rows that the drafted sequences may have in all
        """
        self._alone = len(drafts) == 1 and not other_rows
        chains = [draft if draft.laws is not None else best_chain(draft) for draft in drafts]
        if self._length is not None:
            chains = [chain.keep(range(min(len(chain), self._length))) for chain in chains]
        plans = self._plans(chains, read, other_rows, room=room)
        priced = self._prices is not None and self._length is None
        best = max(plans, key=self._goodput) if priced else plans[-1]
        chosen = self._settled(best, plans if not other_rows else ())
        return [self._first(chain, count) for chain, count in zip(chains, chosen.kept, strict=True)]

    def _plans(
        self, chains: Sequence[Draft], read: Sequence[int], other_rows: int, *, room: int
    ) -> list[_Plan]:
        """No node but the free ones, then one more after the other, best first."""
        kept = self._unpriced(chains, read, room)
        total = sum(max(self._least, count + nodes) for count, nodes in zip(read, kept, strict=True))
        expected = len(chains) + sum(sum(c.survival[:nodes]) for c, nodes in zip(chains, kept, strict=True))
        plans = [_Plan(tuple(kept), total + other_rows, expected)]
        for survival, index in self._ranked(chains, kept)[: max(0, room - total)]:
            kept[index] += 1
            total, expected = total + 1, expected + survival
            plans.append(_Plan(tuple(kept), total + other_rows, expected))
        return plans

    def took(self, rows: int, seconds: float) -> None:
        """The pass that was planned last had so many rows and took so long; none of them read a prompt."""
        if self._prices is not None and not self._switched and rows == self.rows:
            self._prices.learn(rows, seconds, alone=self._alone)

    def _settled(self, best: _Plan, plans: Sequence[_Plan]) -> _Plan:
        """The plan to follow, given that another row count than the last pass's costs a switch.

        As in renting skis: the best that needs no switch is followed until what that has lost adds up to
        one. So no run of passes costs more than twice what the best choice in hindsight would have.
        """
        if self._prices is None:
            return self._follow(best, best.rows, switched=False)
        ready = {self._last, *(self._prices.steps.ready if self._alone else ())}
        fitting = [(self._fitting(plans, rows), rows) for rows in ready]
        # A fixed length may be padded, but is not cut.
        choices = [
            (plan, rows)
            for plan, rows in fitting
            if plan is not None and (self._length is None or plan is best)
        ]
        if not choices:
            return self._follow(best, best.rows, switched=True)
        staying, rows = max(choices, key=lambda choice: choice[0].expected / self._seconds(choice[1]))
        a_token = self._seconds(plans[0].rows) / plans[0].expected
        gain = (best.expected - staying.expected) * a_token
        if best.rows not in ready:
            self._regret += max(0.0, gain - self._seconds(best.rows) + self._seconds(rows))
            if self._regret >= self._prices.steps.switch:
                return self._follow(best, best.rows, switched=True)
        return self._follow(staying, rows, switched=False)

    def _follow(self, plan: _Plan, rows: int, *, switched: bool) -> _Plan:
        self.rows, self._switched = rows, switched
        if switched:
            self._regret = 0.0
        if self._prices is None or not (self._alone and rows in self._prices.steps.ready):
            self._last = rows
        return plan

    @staticmethod
    def _fitting(plans: Sequence[_Plan], rows: int) -> _Plan | None:
        """The largest plan for a pass of so many rows, at most MOST_NODES of them pads."""
        return next((plan for plan in reversed(plans) if rows - MOST_NODES <= plan.rows <= rows), None)

    def _unpriced(self, chains: Sequence[Draft], read: Sequence[int], room: int) -> list[int]:
        """How many nodes of each chain need no price: those that take the place of a pad, and sampled
        ones, as deep as there is room for all (a depth that does not depend on what was drawn)."""
        sampled = [chain.laws is not None for chain in chains]
        depth = MOST_NODES if any(sampled) else 0
        while depth and room < sum(
            max(self._least, count + depth * drawn) for count, drawn in zip(read, sampled, strict=True)
        ):
            depth -= 1
        free = [max(self._least - count, 0) for count in read]
        return [
            min(len(chain), depth if drawn else pads)
            for chain, drawn, pads in zip(chains, sampled, free, strict=True)
        ]

    @staticmethod
    def _ranked(chains: Sequence[Draft], kept: Sequence[int]) -> list[tuple[float, int]]:
        """(survival, sequence) of the nodes after those kept, best first; a chain's own order stays."""
        ranked: list[tuple[float, int]] = []
        for index, chain in enumerate(chains):
            floor = 1.0
            for survival in chain.survival[kept[index] :] if chain.laws is None else ():
                floor = min(floor, survival)
                ranked.append((floor, index))
        return sorted(ranked, key=lambda node: -node[0])

    def _goodput(self, plan: _Plan) -> float:
        return plan.expected / self._seconds(plan.rows)

    def _seconds(self, rows: int) -> float:
        return 1.0 if self._prices is None else self._prices.seconds(rows, alone=self._alone)

    @staticmethod
    def _first(chain: Draft, count: int) -> Draft:
        if count == len(chain):
            return chain
        return chain.keep(range(count)) if count else EMPTY

"""The planner: how many draft nodes are worth verifying in this pass.

It admits nodes in the order of their survival and stops where the expected emitted tokens per
second of the whole pass are highest (goodput: Liu et al. 2024, arXiv 2406.14066). All prefix
sizes are tried, since step times are a staircase: a few nodes more can be free, one more a cliff.

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
class Planner:
    """Cuts drafts to what pays.

    steps       step times by rows; None: nothing is priced
    length      a fixed number of nodes instead of a price, or None
    min_tokens  tokens every sequence brings anyway: draft nodes up to there are free
    """

    steps: StepTimes | None
    length: int | None = None
    min_tokens: int = 1

    @property
    def budget(self) -> int:
        """The most nodes worth asking a proposer for."""
        return MOST_NODES if self.length is None else self.length

    def cut(self, drafts: Sequence[Draft], *, read: Sequence[int], other_rows: int, room: int) -> list[Draft]:
        """Cut drafts (chains, or trees, of which the best chain is taken) to what pays in one pass.

        read        tokens each sequence reads before its draft
        other_rows  rows of the pass that have nothing to do with drafts
        room        most rows that the drafted sequences may have in all
        """
        chains = [draft if draft.laws is not None else best_chain(draft) for draft in drafts]
        if self.length is not None:
            chains = [chain.keep(range(min(len(chain), self.length))) for chain in chains]
        kept = self._unpriced(chains, read, room)
        total = sum(max(self.min_tokens, count + nodes) for count, nodes in zip(read, kept, strict=True))
        expected = len(chains) + sum(sum(c.survival[:nodes]) for c, nodes in zip(chains, kept, strict=True))
        best, best_goodput = list(kept), self._goodput(expected, total + other_rows)
        for survival, index in self._ranked(chains, kept):
            kept[index] += 1
            total += 1
            expected += survival
            if total > room:
                break
            goodput = self._goodput(expected, total + other_rows)
            if goodput > best_goodput or self.steps is None or self.length is not None:
                best, best_goodput = list(kept), goodput
        return [self._first(chain, count) for chain, count in zip(chains, best, strict=True)]

    def _unpriced(self, chains: Sequence[Draft], read: Sequence[int], room: int) -> list[int]:
        """How many nodes of each chain need no price: those that take the place of a pad, and sampled
        ones, as deep as there is room for all (a depth that does not depend on what was drawn)."""
        sampled = [chain.laws is not None for chain in chains]
        depth = MOST_NODES if any(sampled) else 0
        while depth and room < sum(
            max(self.min_tokens, count + depth * drawn) for count, drawn in zip(read, sampled, strict=True)
        ):
            depth -= 1
        free = [max(self.min_tokens - count, 0) for count in read]
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

    def _goodput(self, expected: float, rows: int) -> float:
        return expected / self.steps.seconds(rows) if self.steps is not None else expected

    @staticmethod
    def _first(chain: Draft, count: int) -> Draft:
        if count == len(chain):
            return chain
        return chain.keep(range(count)) if count else EMPTY

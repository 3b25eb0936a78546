"""How likely drafted nodes are to be reached, learned as the rounds go by.

Proposers state a survival of their own making; proposers of different kinds mean different things
by it. This object learns from verdicts how often a node is accepted once its parent was reached, by
source, the proposer's own confidence, match length, and depth, and prices drafts with it.

    survival = Survival()
    priced = survival.price(draft)            # the same nodes in the same order
    ...                                       # choose by `priced`, verify, extend the sequence
    survival.follow(draft, written)           # the draft as the proposer gave it: never a priced one

A cell with few observations leans on the coarser cell above it, and in the end on a prior. Old
observations fade.

Knows nothing of costs, planners or particular proposers (but for the priors of the built-in ones).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from pilotfish.draft import ROOT, Draft, Verdict

MATCHES = (1, 2, 3, 4, 5, 7, 10, 16)  # lower ends of the match-length buckets after 0
CONFIDENCES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
DEPTHS = (2, 3, 4, 6)
LEAST, MOST = 0.001, 0.999

# Measured on greedy text of the embedded model (54 prompts, 8 tasks): acceptance given the parent,
# by match bucket. In a joined draft "=" marks a node that another proposer guessed too, "!" one that
# another contradicts. They stand for nodes their proposer is sure of; elsewhere, and where a source is
# missing, its own confidence is the prior.
PRIORS: dict[str, tuple[float, ...]] = {
    "suffix": (0.2, 0.4, 0.5, 0.7, 0.65, 0.75, 0.85, 0.9, 0.94),
    "suffix=": (0.2, 0.4, 0.55, 0.8, 0.75, 0.88, 0.91, 0.94, 0.97),
    "suffix!": (0.1, 0.2, 0.28, 0.48, 0.4, 0.55, 0.67, 0.85, 0.9),
}

Cell = list[float]  # accepted, seen (both faded)
Key = tuple[str | int, ...]


class Survival:
    """Calibrated survival, learned online.

    Call `price` on a proposer's draft before choosing what to verify. After the round call `follow`
    (or `observe`) with the draft as the proposer gave it: a priced draft no longer shows the
    confidence that its prices were looked up by.
    `conditional` and `learn` are the same for one node.
    """

    def __init__(self, *, shrinkage: float = 12.0, memory: float = 2000.0) -> None:
        self._shrinkage = shrinkage
        self._keep = 1.0 - 1.0 / memory
        self._cells: dict[Key, Cell] = {}

    def conditional(self, source: str, match_length: int, depth: int, confidence: float) -> float:
        """The probability that a node is accepted, given that its parent was."""
        match = bisect_right(MATCHES, match_length)
        estimate = _prior(source, match, confidence)
        weight, cells = self._shrinkage, self._cells
        for key in _keys(source, match, depth, confidence):
            cell = cells.get(key)
            if cell is None:
                break  # a cell that was never seen has no finer ones that were
            estimate = (cell[0] + weight * estimate) / (cell[1] + weight)
        return min(max(estimate, LEAST), MOST)

    def learn(self, source: str, match_length: int, depth: int, confidence: float, accepted: bool) -> None:
        """Count one node whose parent was reached."""
        keep, cells = self._keep, self._cells
        hit = 1.0 if accepted else 0.0
        for key in _keys(source, bisect_right(MATCHES, match_length), depth, confidence):
            cell = cells.get(key)
            if cell is None:
                cells[key] = [hit, 1.0]
            else:
                cell[0] = cell[0] * keep + hit
                cell[1] = cell[1] * keep + 1.0

    def price(self, draft: Draft) -> Draft:
        """The draft with calibrated survival; nodes and order stay."""
        if not draft.tokens:
            return draft
        survival: list[float] = []
        for node, depth in enumerate(draft.depths):
            parent = draft.parents[node]
            above = 1.0 if parent == ROOT else survival[parent]
            chance = self.conditional(
                draft.sources[node], draft.match_lengths[node], depth, _confidence(draft, node)
            )
            survival.append(above * chance)
        return Draft(
            draft.tokens, draft.parents, draft.sources, draft.match_lengths, tuple(survival), draft.laws
        )

    def observe(self, draft: Draft, verdict: Verdict) -> None:
        """Learn from a round: every verified node whose parent was reached is right or wrong.

        The verdict's token counts as accepted where it was drafted: a request may end on it.
        """
        self.follow(draft, verdict.emitted(draft))

    def follow(self, draft: Draft, written: Sequence[int]) -> None:
        """Learn from a whole draft, cut nodes included, given the tokens that came in its place.

        Better than `observe` where nodes are point masses: what is priced too low to be verified is
        still learned about. For nodes drawn from laws use `observe`: an unverified draw says nothing
        about how often such draws are accepted.
        """
        parent, depth = ROOT, 1
        for token in written:
            right = draft.child(parent, token)
            for node in draft.children(parent):
                source, match_length = draft.sources[node], draft.match_lengths[node]
                self.learn(source, match_length, depth, _confidence(draft, node), node == right)
            if right is None:
                return
            parent, depth = right, depth + 1


def _confidence(draft: Draft, node: int) -> float:
    """The proposer's own probability of a node, given its parent."""
    parent = draft.parents[node]
    above = 1.0 if parent == ROOT else draft.survival[parent]
    return draft.survival[node] / above if above > 0.0 else 0.0


def _prior(source: str, match: int, confidence: float) -> float:
    by_match = PRIORS.get(source)
    if by_match is None or confidence < CONFIDENCES[-1]:
        return min(max(confidence, 0.05), 0.95)
    return by_match[min(match, len(by_match) - 1)]


def _keys(source: str, match: int, depth: int, confidence: float) -> tuple[Key, Key, Key]:
    """The cells of a node, coarse to fine. (Measured: confidence first predicts better than match
    length first, and leaves what is calibrated already as it is.)"""
    sure = bisect_right(CONFIDENCES, confidence)
    return (source, sure), (source, sure, match), (source, sure, match, bisect_right(DEPTHS, depth))

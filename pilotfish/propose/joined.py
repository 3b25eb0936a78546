"""Several proposers as one: their drafts are merged into one trie and priced on one scale.

The same token after the same parent is one node. Each node is priced by what nodes like it turned
out to be worth, which includes whether the other proposers agree with it, say something else at the
same place, or say nothing. A proposer that can `extend` any text (recycling) goes on where the
others end.

    proposer = Joined([Suffix(), Recycle()])
    proposer.propose([sequence], budget=3)    # a chain; a tree, best first, with trees=True

Prices are learned from what the sequence turned out to say, verified or not: all that was drafted at
a place that the text reached is right or wrong, so nothing is learned only about what was chosen.
This makes choices by price, so it is not for proposers that draw from laws.

Knows nothing of models, verification or costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from pilotfish.draft import ROOT, Draft
from pilotfish.errors import BadRequest
from pilotfish.propose import Context, Observation, Proposer
from pilotfish.propose.recycle import Guess
from pilotfish.propose.survival import Survival
from pilotfish.propose.trie import Trie

SMALLEST = 0.05  # a node less likely than this is not added


@runtime_checkable
class Extends(Protocol):
    """A proposer that can continue any text by one token."""

    name: str

    def extend(self, tokens: tuple[int, ...], most: int | None = None) -> list[Guess]: ...


class Joined:
    """Proposers joined under one budget.

    Each is asked for the whole budget; `observe` and `forget` reach all of them.
    """

    def __init__(self, proposers: Sequence[Proposer], *, trees: bool = False) -> None:
        if not proposers:
            raise BadRequest("a joined draft was asked for with no proposer; give at least one")
        names = [proposer.name for proposer in proposers]
        if len(set(names)) < len(names):
            raise BadRequest(f"a joined draft names a proposer twice: {'+'.join(names)}; name each once")
        drawing = [proposer.name for proposer in proposers if getattr(proposer, "draws_laws", False)]
        if drawing and len(names) > 1:
            others = [name for name in names if name not in drawing] or drawing[1:]
            raise BadRequest(
                f"cannot join {drawing[0]}, which draws its tokens from laws, with {', '.join(others)}: the "
                f"merged draft would follow no law; use {drawing[0]} alone"
            )
        self.name = "+".join(names)
        self.top_k = max(proposer.top_k for proposer in proposers)
        self.draws_laws = bool(drawing)
        self.calibrated = len(proposers) > 1 or proposers[0].calibrated
        self.trees = trees
        self._proposers = tuple(proposers)
        self._extends = next((p for p in proposers if isinstance(p, Extends)), None)
        self._survival = Survival()
        self._tries: dict[int, tuple[int, Trie]] = {}  # by sequence: its length then, what was drafted

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        drafts = [proposer.propose(sequences, budget) for proposer in self._proposers]
        if len(self._proposers) == 1:
            return drafts[0]
        return [
            self._merge(sequence, [row[place] for row in drafts], budget)
            for place, sequence in enumerate(sequences)
        ]

    def observe(self, observations: Sequence[Observation]) -> None:
        for observation in observations:
            self._learn(observation)
        for proposer in self._proposers:
            proposer.observe(observations)

    def forget(self, sequence: Context) -> None:
        self._tries.pop(sequence.id, None)
        for proposer in self._proposers:
            proposer.forget(sequence)

    def _merge(self, sequence: Context, drafts: Sequence[Draft], budget: int) -> Draft:
        trie = Trie()
        for draft in drafts:
            trie.add(draft)
        trie.price(self._survival)
        last = sequence.tokens[-1] if sequence.tokens else None
        if self.trees:
            # What lies below the budget-th best node cannot be chosen, and is not worth extending.
            for leaf in trie.leaves()[:budget]:
                self._continue(trie, leaf, last, budget - trie.depths[leaf])
            nodes = trie.likeliest(budget)
        else:
            nodes = trie.best_chain()
            if nodes:
                nodes += self._continue(trie, nodes[-1], last, budget - len(nodes))
        self._tries[sequence.id] = len(sequence.tokens), trie
        return trie.draft(nodes)

    def _continue(self, trie: Trie, leaf: int, last: int | None, room: int) -> list[int]:
        """Grow a chain of at most `room` nodes below a leaf, while it is likely enough; its nodes."""
        grown: list[int] = []
        if self._extends is None:
            return grown
        above = trie.parents[leaf]
        before = last if above == ROOT else trie.tokens[above]
        while len(grown) < room:
            token = trie.tokens[leaf]
            guesses = self._extends.extend((token,) if before is None else (before, token), 1)
            if not guesses or trie.survival[leaf] * guesses[0].confidence < SMALLEST:
                break
            best = guesses[0]
            leaf = trie.grow(leaf, best.token, self._extends.name, best.match_length, best.confidence)
            trie.price(self._survival)
            grown.append(leaf)
            before = token
        return grown

    def _learn(self, observation: Observation) -> None:
        sequence = observation.sequence
        length, trie = self._tries.pop(sequence.id, (0, None))
        # Only what was drafted right before this round: the round may have had no draft at all.
        written = len(observation.verdict.path) + 1
        if trie is not None and length + written == len(sequence.tokens):
            trie.learn(self._survival, sequence.tokens[length:])

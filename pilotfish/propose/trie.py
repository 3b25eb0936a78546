"""The merged trie of a joined draft: nodes that remember who guessed them.

    trie = Trie()
    trie.add(suffix_draft)
    trie.add(recycle_draft)
    trie.price(survival)              # one scale for all
    trie.draft(trie.best_chain())

Knows nothing of proposers, sequences or budgets.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotfish.draft import ROOT, Draft
from pilotfish.propose.survival import Survival

ALONE, AGREED, CONTESTED = "", "=", "!"  # what the other proposers said at the same place


class Trie:
    """Nodes in topological order. Where several proposers guessed a node, it is told by the one that
    was surest of it, and its confidence is the mean of theirs."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.survival: list[float] = []
        self._sources: list[str] = []
        self._matches: list[int] = []
        self._confidences: list[float] = []
        self._surest: list[float] = []
        self._votes: list[int] = []
        self._places: dict[tuple[int, int], int] = {}  # (parent, token) -> node
        self._said: dict[int, int] = {}  # parent -> how many proposers said something after it

    def __len__(self) -> int:
        return len(self.tokens)

    def add(self, draft: Draft) -> None:
        """Merge a draft."""
        where = {ROOT: ROOT}
        asked: set[int] = set()
        for node, (token, parent) in enumerate(zip(draft.tokens, draft.parents, strict=True)):
            above = 1.0 if parent == ROOT else draft.survival[parent]
            confidence = draft.survival[node] / above if above > 0.0 else 0.0
            place = where[parent]
            where[node] = self.grow(place, token, draft.sources[node], draft.match_lengths[node], confidence)
            if place not in asked:
                asked.add(place)
                self._said[place] = self._said.get(place, 0) + 1

    def grow(self, parent: int, token: int, source: str, match_length: int, confidence: float) -> int:
        """Add one guess; the node it is now part of."""
        node = self._places.get((parent, token))
        if node is None:
            node = self._places[parent, token] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
            self.depths.append(1 if parent == ROOT else self.depths[parent] + 1)
            self._sources.append(source)
            self._matches.append(match_length)
            self._confidences.append(confidence)
            self._surest.append(confidence)
            self._votes.append(1)
            return node
        votes = self._votes[node] = self._votes[node] + 1
        self._confidences[node] += (confidence - self._confidences[node]) / votes
        if (confidence, match_length) > (self._surest[node], self._matches[node]):
            self._sources[node], self._matches[node] = source, match_length
            self._surest[node] = confidence
        return node

    def price(self, survival: Survival) -> None:
        """Price the nodes that have no price yet."""
        for node in range(len(self.survival), len(self.tokens)):
            parent = self.parents[node]
            above = 1.0 if parent == ROOT else self.survival[parent]
            kind, depth = self._kind(node), self.depths[node]
            chance = survival.conditional(kind, self._matches[node], depth, self._confidences[node])
            self.survival.append(above * chance)

    def learn(self, survival: Survival, written: Sequence[int]) -> None:
        """Tell `survival` what became of the nodes, now that the text went on with these tokens."""
        after: dict[int, list[int]] = {}
        for node, parent in enumerate(self.parents):
            after.setdefault(parent, []).append(node)
        here = ROOT
        for token in written:
            there = None
            for node in after.get(here, ()):
                right = self.tokens[node] == token
                there = node if right else there
                survival.learn(
                    self._kind(node), self._matches[node], self.depths[node], self._confidences[node], right
                )
            if there is None:
                return
            here = there

    def best_chain(self) -> list[int]:
        """The nodes of the path with the most accepted tokens to be expected."""
        if not self.tokens:
            return []
        worth: list[float] = []
        for node, parent in enumerate(self.parents):
            worth.append(self.survival[node] + (0.0 if parent == ROOT else worth[parent]))
        node = worth.index(max(worth))
        path: list[int] = []
        while node != ROOT:
            path.append(node)
            node = self.parents[node]
        return path[::-1]

    def likeliest(self, budget: int) -> list[int]:
        """The nodes most likely to be reached; parents always among them."""
        order = sorted(range(len(self.tokens)), key=lambda node: (-self.survival[node], node))
        return order[:budget]

    def leaves(self) -> list[int]:
        """Nodes without children, likeliest first."""
        inner = set(self.parents)
        found = [node for node in range(len(self.tokens)) if node not in inner]
        return sorted(found, key=lambda node: -self.survival[node])

    def draft(self, nodes: Sequence[int]) -> Draft:
        """The draft of these nodes, likeliest first."""
        nodes = sorted(nodes, key=lambda node: (-self.survival[node], node))
        place = {node: new for new, node in enumerate(nodes)} | {ROOT: ROOT}
        return Draft(
            tuple([self.tokens[node] for node in nodes]),
            tuple([place[self.parents[node]] for node in nodes]),
            tuple([self._sources[node] for node in nodes]),
            tuple([self._matches[node] for node in nodes]),
            tuple([self.survival[node] for node in nodes]),
        )

    def _kind(self, node: int) -> str:
        """The source, and what the others said at the same place."""
        if self._votes[node] > 1:
            return self._sources[node] + AGREED
        contested = self._said.get(self.parents[node], 0) > 1
        return self._sources[node] + (CONTESTED if contested else ALONE)

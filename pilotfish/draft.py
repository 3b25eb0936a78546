"""Draft and Verdict: a guess at the next tokens, and what the target made of it.

A draft is always a tree; a chain is a tree with one leaf. Node i holds one token, and
`parents[i]` is an earlier node or ROOT. ROOT is not a node: it stands for the last token
that the sequence already has.

    draft = Draft.chain([5, 9], source="ngram")
    draft.child(ROOT, 5)             # 0
    Verdict(path=(0,), token=7)      # 5 was accepted, then the target wrote 7, not 9

Knows nothing of models, caches, sampling or proposers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pilotfish.errors import BadDraft

ROOT = -1


@dataclass(frozen=True)
class Draft:
    """A guess at the next tokens of one sequence: a tree, in topological order.

    tokens         the token at each node
    parents        the parent of each node: an earlier node, or ROOT
    sources        which proposer guessed it ("ngram", "suffix", ...)
    match_lengths  how many tokens of context the guess rests on (0 where it means nothing)
    survival       estimated probability that the walk reaches the node (a product along its path)
    laws           the law each node was drawn from, [vocab] float64, or None for a point mass;
                   None instead of the tuple when all nodes are point masses

    Raises BadDraft where the arrays disagree, a parent does not come first, or two children
    of one node hold the same token.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    sources: tuple[str, ...] = ()
    match_lengths: tuple[int, ...] = ()
    survival: tuple[float, ...] = ()
    laws: tuple[np.ndarray | None, ...] | None = None
    _children: dict[int, dict[int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        lengths = {
            len(self.tokens),
            len(self.parents),
            len(self.sources),
            len(self.match_lengths),
            len(self.survival),
            len(self.tokens if self.laws is None else self.laws),
        }
        if len(lengths) != 1:
            raise BadDraft(f"a draft's fields must have one length, found {sorted(lengths)}")
        children: dict[int, dict[int, int]] = {}
        for node, (token, parent) in enumerate(zip(self.tokens, self.parents, strict=True)):
            if not ROOT <= parent < node:
                raise BadDraft(f"node {node} has parent {parent}; a parent must come first")
            siblings = children.setdefault(parent, {})
            if token in siblings:
                raise BadDraft(f"nodes {siblings[token]} and {node} are siblings with one token, {token}")
            siblings[token] = node
        object.__setattr__(self, "_children", children)

    @classmethod
    def chain(
        cls,
        tokens: Iterable[int],
        *,
        source: str,
        match_length: int = 0,
        survival: Sequence[float] | None = None,
        laws: Sequence[np.ndarray | None] | None = None,
    ) -> Draft:
        """A draft with one leaf; survival defaults to 1 everywhere."""
        ids = tuple(tokens)
        return cls(
            tokens=ids,
            parents=tuple(range(-1, len(ids) - 1)),
            sources=(source,) * len(ids),
            match_lengths=(match_length,) * len(ids),
            survival=tuple(survival) if survival is not None else (1.0,) * len(ids),
            laws=tuple(laws) if laws is not None else None,
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def children(self, node: int) -> tuple[int, ...]:
        """The child nodes of a node (or of ROOT), in the order they were drafted."""
        return tuple(self._children.get(node, {}).values())

    def child(self, node: int, token: int) -> int | None:
        """The child of a node that holds a token, or None."""
        return self._children.get(node, {}).get(token)

    def law(self, node: int) -> np.ndarray | None:
        """The law a node was drawn from, [vocab], or None for a point mass."""
        return None if self.laws is None else self.laws[node]

    @property
    def is_chain(self) -> bool:
        """True when no node has two children."""
        return all(len(siblings) == 1 for siblings in self._children.values())

    @property
    def depths(self) -> tuple[int, ...]:
        """The depth of each node: 1 for the children of ROOT."""
        depths: list[int] = []
        for parent in self.parents:
            depths.append(1 if parent == ROOT else depths[parent] + 1)
        return tuple(depths)

    def path(self, node: int) -> tuple[int, ...]:
        """The nodes from the child of ROOT down to a node, both included; () for ROOT."""
        nodes: list[int] = []
        while node != ROOT:
            nodes.append(node)
            node = self.parents[node]
        return tuple(reversed(nodes))

    def keep(self, nodes: Iterable[int]) -> Draft:
        """The draft with only these nodes (each with all its ancestors), in their present order."""
        kept = sorted(set(nodes))
        place = {node: new for new, node in enumerate(kept)} | {ROOT: ROOT}
        try:
            parents = tuple(place[self.parents[node]] for node in kept)
        except KeyError as orphan:
            raise BadDraft(f"cannot keep a node without its parent {orphan}") from None
        return Draft(
            tokens=tuple(self.tokens[node] for node in kept),
            parents=parents,
            sources=tuple(self.sources[node] for node in kept),
            match_lengths=tuple(self.match_lengths[node] for node in kept),
            survival=tuple(self.survival[node] for node in kept),
            laws=None if self.laws is None else tuple(self.laws[node] for node in kept),
        )

    def within(self, *, vocab: int, depth: int) -> Draft:
        """The draft without tokens outside [0, vocab), without nodes deeper than `depth`,
        and without what hangs below either."""
        if self.tokens and min(self.tokens) >= 0 and max(self.tokens) < vocab and len(self) <= depth:
            return self
        kept: list[int] = []
        reached = {ROOT}
        for node, level in enumerate(self.depths):
            if self.parents[node] in reached and 0 <= self.tokens[node] < vocab and level <= depth:
                kept.append(node)
                reached.add(node)
        return self if len(kept) == len(self) else self.keep(kept)


EMPTY = Draft()


@dataclass(frozen=True)
class Verdict:
    """What verification made of one draft.

    path    accepted nodes, from a child of ROOT downwards
    token   the one token the target adds: drawn after the last accepted node, and never in
            `path`, even where it ends the request and happens to be drafted too
    """

    path: tuple[int, ...]
    token: int

    def emitted(self, draft: Draft) -> tuple[int, ...]:
        """The tokens of the round, in order: accepted + 1 of them."""
        return (*(draft.tokens[node] for node in self.path), self.token)

    def corrected(self, draft: Draft) -> bool:
        """True when the token was drawn at a node with children and is none of them."""
        last = self.path[-1] if self.path else ROOT
        return bool(draft.children(last)) and draft.child(last, self.token) is None

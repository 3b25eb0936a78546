"""Verification: what the target makes of a draft.

    coupled     the walk; same text as plain decoding for the seed; any tree (the default)
    rejection   same law as plain decoding; sampled drafts, chains and trees
    block       same law, more accepted tokens; chains only

    verdict = verify("coupled", draft, rows, continuation)

`rows` gives the target's raw logits after ROOT and after each node: a function of the node, or a
sequence with the root's row first. The round's tokens have been appended to the continuation when
`verify` returns. The token that ends a request is the verdict's token, never in its path.

Knows nothing of proposers, caches, runtimes and text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from pilotfish.draft import Draft, Verdict
from pilotfish.errors import BadDraft, BadRequest
from pilotfish.verify.block import block
from pilotfish.verify.chance import Chance, Keyed
from pilotfish.verify.continuation import Continuation, Law, Row, RowAt
from pilotfish.verify.coupled import coupled
from pilotfish.verify.rejection import rejection

__all__ = ["Chance", "Continuation", "Keyed", "Law", "Row", "RowAt", "Rows", "Verification", "verify"]

Rows = RowAt | Sequence[Row] | NDArray[np.float32]
Rule = Callable[[Draft, RowAt, Continuation, Chance], Verdict]


class Verification(StrEnum):
    """The rules of verification; see the module."""

    COUPLED = "coupled"
    REJECTION = "rejection"
    BLOCK = "block"

    @classmethod
    def named(cls, name: str) -> Verification:
        """The rule of a name; raises BadRequest with the nearest one."""
        try:
            return cls(name)
        except ValueError:
            known = [kind.value for kind in cls]
            nearest = get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise BadRequest(
                f"unknown verification {name!r}; did you mean {nearest!r}? Known: {', '.join(known)}"
            ) from None


RULES: dict[Verification, Rule] = {
    Verification.COUPLED: coupled,
    Verification.REJECTION: rejection,
    Verification.BLOCK: block,
}


def verify(
    kind: str | Verification,
    draft: Draft,
    rows: Rows,
    continuation: Continuation,
    *,
    chance: Chance | None = None,
) -> Verdict:
    """Verify one draft and append the round's tokens; `chance` is keyed by the request's noise unless
    a test brings its own."""
    rule = Verification.named(kind)
    refuse_foreign_tokens(draft, continuation.vocab)
    if rule is not Verification.COUPLED:  # which never looks at laws
        refuse_foreign_laws(draft, continuation.vocab)
    row_at: RowAt = rows if callable(rows) else lambda node: rows[node + 1]
    decisions = chance or Keyed(continuation.noise, round_start=continuation.position)
    return RULES[rule](draft, row_at, continuation, decisions)


def refuse_foreign_tokens(draft: Draft, vocab: int) -> None:
    """Raise BadDraft for a token outside the vocabulary."""
    for node, token in enumerate(draft.tokens):
        if not 0 <= token < vocab:
            raise BadDraft(
                f"node {node} holds token {token}, outside the vocabulary of {vocab}; "
                "prune drafts with Draft.within before the target reads them"
            )


def refuse_foreign_laws(draft: Draft, vocab: int) -> None:
    """Raise BadDraft for a law over another vocabulary, or for siblings with and without a law."""
    for node, stated in enumerate(draft.laws or ()):
        if stated is not None and stated.shape != (vocab,):
            raise BadDraft(f"the law of node {node} has shape {stated.shape}, not ({vocab},)")
        first = draft.children(draft.parents[node])[0]
        if (stated is None) != (draft.law(first) is None):
            raise BadDraft(
                f"nodes {first} and {node} are siblings, one drawn from a law and one without: sampled and "
                "fixed proposers cannot be joined under rejection or block verification"
            )

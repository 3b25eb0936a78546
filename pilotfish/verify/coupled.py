"""The walk: decoding over logits that are already there.

At every node the target's own token is drawn, with noise that depends on the position alone; while
a child holds that token, the next row has been computed already. With an empty draft this is plain
decoding, so the text cannot depend on the draft (Daliri, Musco and Suresh 2024, arXiv 2408.07978).

    coupled(draft, rows, continuation, chance)     # any tree, laws ignored
    coupled(EMPTY, rows, continuation, chance)     # plain decoding

Knows nothing of how a draft was made.
"""

from __future__ import annotations

from collections.abc import Callable

from pilotfish.draft import ROOT, Draft, Verdict
from pilotfish.sampling import Scores
from pilotfish.verify.chance import Chance
from pilotfish.verify.continuation import Continuation, RowAt


def coupled(draft: Draft, rows: RowAt, continuation: Continuation, chance: Chance) -> Verdict:
    """Draw the target's token at every node; follow it while it is drafted."""

    def target_token(node: int, scores: Scores) -> int:
        return chance.target_token(scores, position=continuation.position)

    return walk(draft, rows, continuation, target_token)


def walk(
    draft: Draft, rows: RowAt, continuation: Continuation, choose: Callable[[int, Scores], int]
) -> Verdict:
    """From ROOT down, one chosen token a node, until one is not drafted or ends the request."""
    path: list[int] = []
    node = ROOT
    while True:
        row = rows(node)
        token = choose(node, continuation.scores(row))
        finished = continuation.append(token, row)
        child = draft.child(node, token)
        if finished or child is None:
            return Verdict(tuple(path), token)
        path.append(child)
        node = child

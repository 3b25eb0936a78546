"""Recursive rejection without replacement: sampled drafts, chains and trees.

    at a node: for each child x in turn: accept x with probability min(1, target(x) / draft(x)), else
                   target <- norm(max(target - draft, 0));  draft <- norm(draft without x)
               all children refused: draw from the target as it now stands

One child a node is Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1; several are SpecInfer
(arXiv 2305.09781), algorithm 2, without replacement as in Sequoia (arXiv 2402.12374), section 3.2. The
law is the target's. The text of a seed depends on the draft.

- Siblings must be listed in the order in which they were drawn. Each may carry the law of the first
  draw or its own (without the earlier ones): the earlier ones are struck out here, which changes
  nothing in the second.
- Children without a law are point masses. Accepting one with probability target(x), else striking it
  out of the target, is drawing once from the target and following; so that is what is done.

    rejection(draft, rows, continuation, chance)

Knows nothing of sampling parameters: it is given processed scores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotfish.draft import Draft, Verdict
from pilotfish.errors import BadDraft
from pilotfish.sampling import Scores, law
from pilotfish.verify.chance import Chance
from pilotfish.verify.continuation import Continuation, Law, RowAt
from pilotfish.verify.coupled import walk

SUM_TOLERANCE = 1e-6  # of a draft law: what float32 softmax leaves, and far below any wrong law


def rejection(draft: Draft, rows: RowAt, continuation: Continuation, chance: Chance) -> Verdict:
    """Try the sampled children of every node in turn; follow the one that is accepted."""

    def accepted_or_residual(node: int, scores: Scores) -> int:
        position = continuation.position
        children = draft.children(node)
        if not children or draft.law(children[0]) is None:
            return chance.target_token(scores, position=position)
        target_law = law(scores, continuation.vocab)
        refused: list[int] = []
        for trial, child in enumerate(children):
            token, draft_law = draft.tokens[child], drafted_law(draft, child, refused)
            probability = acceptance(target_law, draft_law, token)
            if chance.accepts(probability, position=position, trial=trial):
                return token
            target_law = residual(target_law, draft_law)
            refused.append(token)
        return chance.residual_token(target_law, position=position)

    return walk(draft, rows, continuation, accepted_or_residual)


def acceptance(target_law: Law, draft_law: Law, token: int) -> float:
    """min(1, target / draft) at a drafted token (Leviathan et al. 2023, section 2.3)."""
    return min(1.0, float(target_law[token] / draft_law[token]))


def residual(target_law: Law, draft_law: Law, *, reached: float = 1.0) -> Law:
    """norm(max(reached * target - draft, 0)): what the target asks for and the draft did not give.

    `reached` is 1 in Leviathan et al. 2023, section 2.3, and p_i in Sun et al. 2024, algorithm 2.
    """
    excess = np.maximum(reached * target_law - draft_law, 0.0)
    total = float(excess.sum())
    # no excess means equal laws, and equal laws are refused only by rounding: either law will do
    return excess / total if total > 0.0 else target_law


def drafted_law(draft: Draft, node: int, refused: Sequence[int]) -> Law:
    """The law a node was really drawn from, once the siblings before it had been drawn."""
    token, stated = draft.tokens[node], draft.law(node)
    assert stated is not None
    total = float(stated.sum())
    if not abs(total - 1.0) <= SUM_TOLERANCE or float(stated.min()) < 0.0:
        raise BadDraft(f"the law of node {node} must be non-negative and sum to 1, found a sum of {total}")
    remaining: Law = stated.astype(np.float64)
    remaining[list(refused)] = 0.0
    if remaining[token] <= 0.0:
        raise BadDraft(
            f"node {node} holds token {token}, to which its law gives no probability; a proposer must "
            "keep the law it really drew from, after temperature, truncation and earlier siblings"
        )
    remaining /= remaining.sum()
    return remaining

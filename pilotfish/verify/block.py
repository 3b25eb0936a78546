"""Block verification: one decision for a whole chain (Sun et al. 2024, arXiv 2403.10444, algorithm 2).

    p_0 = 1;   p_i = min(p_{i-1} * target(x_i) / draft(x_i), 1)
    S_i = sum_x max(p_i * target(x | x_<=i) - draft(x | x_<=i), 0)                    1 <= i < length
    h_length = p_length;   h_i = S_i / (S_i + 1 - p_i), and 0 / 0 counts as 1
    accept the longest i whose own trial succeeds, with probability h_i; then draw from the target
    after the whole chain, else from norm(max(p_i * target - draft, 0))

Never accepts less on average than token by token, with the same law. Chains only. A node without a
law is a point mass on its token.

    block(draft, rows, continuation, chance)

The target's law is needed along the whole draft before anything is accepted, so the draft is pushed
onto the history and taken back. Knows nothing of stops: they are checked as tokens are appended,
and a stop cuts the accepted part. The law of what is left is right, because it is a prefix. So rows
after a drafted stop are processed too, and must be fit for it (a grammar that has ended allows all).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pilotfish.draft import ROOT, Draft, Verdict
from pilotfish.errors import BadDraft
from pilotfish.sampling import Scores, law
from pilotfish.verify.chance import Chance
from pilotfish.verify.continuation import Continuation, Law, Row, RowAt
from pilotfish.verify.rejection import drafted_law, residual


def block(draft: Draft, rows: RowAt, continuation: Continuation, chance: Chance) -> Verdict:
    """Accept a prefix of a chain, then draw one token; raises BadDraft for a tree."""
    if not draft.is_chain:
        raise BadDraft("block verification takes chains; this draft is a tree: ask its proposers for chains")
    start = continuation.position
    chain_rows = [rows(node) for node in range(ROOT, len(draft))]  # a chain's node i follows node i - 1
    scores, target_laws = look_ahead(draft.tokens, chain_rows, continuation)
    length = accepted = len(target_laws)
    draft_laws = [chain_law(draft, node, continuation.vocab) for node in range(length)]
    reached = reach(draft.tokens[:length], target_laws, draft_laws)
    while accepted > 0:  # from the longest down: the trials are independent
        probability = acceptance(accepted, reached, target_laws, draft_laws)
        if chance.accepts(probability, position=start + accepted - 1):
            break
        accepted -= 1
    for node in range(accepted):
        if continuation.append(draft.tokens[node], chain_rows[node]):
            return Verdict(tuple(range(node)), draft.tokens[node])
    if accepted == length:
        token = chance.target_token(scores[length], position=start + length)
    else:
        rest = residual(target_laws[accepted], draft_laws[accepted], reached=reached[accepted])
        token = chance.residual_token(rest, position=start + accepted)
    continuation.append(token, chain_rows[accepted])
    return Verdict(tuple(range(accepted)), token)


def look_ahead(
    tokens: Sequence[int], chain_rows: Sequence[Row], continuation: Continuation
) -> tuple[list[Scores], list[Law]]:
    """The processed scores after ROOT and after each token of a chain, and the law each token meets.

    Ends with a token that has no chance (p_i = 0, so no longer prefix has one): supposing it would be
    idle, and a grammar could not follow it.
    """
    scores = [continuation.scores(chain_rows[0])]
    target_laws: list[Law] = []
    pushed = 0
    try:
        for token, row in zip(tokens, chain_rows[1:], strict=True):
            target_laws.append(law(scores[-1], continuation.vocab))
            if target_laws[-1][token] == 0.0:
                break
            continuation.push(token)
            pushed += 1
            scores.append(continuation.scores(row))
    finally:
        for _ in range(pushed):
            continuation.pop()
    return scores, target_laws


def chain_law(draft: Draft, node: int, vocab: int) -> Law:
    """The law a node of a chain was drawn from: one-hot where it carries none."""
    if draft.law(node) is not None:
        return drafted_law(draft, node, ())
    point_mass = np.zeros(vocab)
    point_mass[draft.tokens[node]] = 1.0
    return point_mass


def reach(tokens: Sequence[int], target_laws: Sequence[Law], draft_laws: Sequence[Law]) -> list[float]:
    """[length + 1] p_0 .. p_length of the chain."""
    reached = [1.0]
    for token, target_law, draft_law in zip(tokens, target_laws, draft_laws, strict=True):
        reached.append(min(reached[-1] * float(target_law[token] / draft_law[token]), 1.0))
    return reached


def acceptance(
    accepted: int, reached: Sequence[float], target_laws: Sequence[Law], draft_laws: Sequence[Law]
) -> float:
    """h_i: the probability that the trial for the first i tokens succeeds."""
    if accepted == len(target_laws):
        return reached[accepted]
    excess = np.maximum(reached[accepted] * target_laws[accepted] - draft_laws[accepted], 0.0)
    total = float(excess.sum())
    rest = total + 1.0 - reached[accepted]
    return total / rest if rest > 0.0 else 1.0

"""What theory expects of speculation: the formulas of Leviathan et al. 2023 (arXiv 2211.17192).

    expected_tokens(0.8, draft_length=5)                          # 3.69 tokens a round
    improvement(0.8, draft_length=5, draft_cost=0.05)             # 2.95 times as fast
    best_draft_length(0.8, draft_cost=0.05, longest=20)           # 8 for a target with free rows

`acceptance_rate` is the probability that a draft token is accepted, taken as independent of its
position; costs are in units of one target pass over one row. Knows nothing of measured acceptance,
machines or proposers: the planner works with tables of those.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pilotfish.verify.continuation import Law

CostOfRows = Callable[[int], float]  # target pass over m rows, over the pass over one row


def free_rows(rows: int) -> float:
    """The papers' assumption: a target pass costs the same whatever its rows."""
    return 1.0


def overlap(target_law: Law, draft_law: Law) -> float:
    """The probability that a drafted token is accepted: sum_x min(target, draft) = 1 - TV
    (Leviathan et al. 2023, theorem 3.5)."""
    return float(np.minimum(target_law, draft_law).sum())


def expected_tokens(acceptance_rate: float, *, draft_length: int) -> float:
    """Tokens a round: (1 - a^(n+1)) / (1 - a) (Leviathan et al. 2023, equation 1)."""
    if acceptance_rate == 1.0:
        return draft_length + 1.0
    return float((1.0 - acceptance_rate ** (draft_length + 1)) / (1.0 - acceptance_rate))


def improvement(
    acceptance_rate: float,
    *,
    draft_length: int,
    draft_cost: float = 0.0,
    verification_cost: CostOfRows = free_rows,
) -> float:
    """Wall-time improvement: tokens / (n c + v(n + 1)); with v = 1, Leviathan et al. 2023, theorem 3.8."""
    seconds = draft_length * draft_cost + verification_cost(draft_length + 1)
    return expected_tokens(acceptance_rate, draft_length=draft_length) / seconds


def operations_factor(acceptance_rate: float, *, draft_length: int, draft_operations: float = 0.0) -> float:
    """How many times the arithmetic grows: (n c + n + 1) / tokens (Leviathan et al. 2023, theorem 3.11)."""
    operations = draft_length * draft_operations + draft_length + 1
    return operations / expected_tokens(acceptance_rate, draft_length=draft_length)


def best_draft_length(
    acceptance_rate: float,
    *,
    draft_cost: float = 0.0,
    verification_cost: CostOfRows = free_rows,
    longest: int,
) -> int:
    """The draft length, 0 included, of the largest improvement; the shortest of equals."""

    def gain(length: int) -> float:
        return improvement(
            acceptance_rate,
            draft_length=length,
            draft_cost=draft_cost,
            verification_cost=verification_cost,
        )

    return max(range(longest + 1), key=gain)  # max keeps the first of equals

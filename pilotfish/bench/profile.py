"""Where a pass goes: matrix products, attention, the rest of the graph, and what lies between nodes.

    for share in profile(llm.target): print(share.rows, share.matmul, share.attention)

The runtime's own counters are averages over all passes of a compiled model, so each row count gets a
profiled copy of its own, and what is measured elsewhere is not slowed. Knows nothing of prompts or proposers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from pilotfish.model.load import Target, profiled_runner
from pilotfish.model.runner import Slice

ROWS = (2, 4, 8, 16)
_CONTEXT = 256
_PASSES = 40
_WARM_UP = 5


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Milliseconds of one pass of `rows` rows, one sequence, on average.

    outside  in the pass, but in no node: the runtime's own bookkeeping, and counting
    """

    rows: int
    total: float
    matmul: float
    attention: float
    other: float
    outside: float


def profile(target: Target) -> list[Shares]:
    """The shares by rows, at a context of 256 tokens."""
    return [_profile(target, rows) for rows in ROWS]


def _profile(target: Target, rows: int) -> Shares:
    runner = profiled_runner(target)
    blocks = list(range(-(-(_CONTEXT + rows) // runner.block_size)))
    part = Slice([0] * rows, _CONTEXT, blocks, range(rows))
    for _ in range(_WARM_UP):  # building kernels takes time outside of nodes
        runner.forward([part])
    began = time.perf_counter()
    for _ in range(_PASSES):
        runner.forward([part])
    return _shares(rows, (time.perf_counter() - began) / _PASSES, runner.node_seconds())


def _shares(rows: int, total: float, nodes: dict[str, float]) -> Shares:
    matmul = sum(seconds for kind, seconds in nodes.items() if "FullyConnected" in kind or "MatMul" in kind)
    attention = sum(seconds for kind, seconds in nodes.items() if "Attention" in kind)
    inside = sum(nodes.values())
    return Shares(
        rows=rows,
        total=1e3 * total,
        matmul=1e3 * matmul,
        attention=1e3 * attention,
        other=1e3 * (inside - matmul - attention),
        outside=1e3 * max(0.0, total - inside),
    )


def profile_table(shares: list[Shares]) -> str:
    """The shares as a table for people."""
    lines = ["rows  total ms  matmul  attention  other nodes  outside nodes"]
    for one in shares:
        parts = (one.matmul, one.attention, one.other, one.outside)
        widths = (6, 9, 11, 13)
        percent = [
            f"{100 * part / one.total:.0f}%".rjust(width) for part, width in zip(parts, widths, strict=True)
        ]
        lines.append(f"{one.rows:4}  {one.total:8.1f}  " + "  ".join(percent))
    return "\n".join(lines)

"""Cells of an audit as lines of a table, and as the JSON object of `audit --json`.

    print(HEAD); print(line(cell))
    print(json.dumps(as_dict(llm, cells)))

Knows nothing of how anything was compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotfish.audit.run import Cell, worst
from pilotfish.llm import LLM

_COLUMNS = "{:<15} {:<28} {:<12} {:>8} {:>9} {:>10} {:>10}  {}"
HEAD = _COLUMNS.format(
    "draft", "sampling", "setting", "compared", "accepted", "corrected", "differing", "verdict"
)


def line(cell: Cell) -> str:
    """One cell; its notes on lines of their own."""
    case = cell.case
    counts = (cell.tokens_compared, cell.accepted, cell.corrected, cell.differing)
    shown = _COLUMNS.format(case.draft, case.sampling, case.setting, *counts, cell.verdict)
    return "\n".join([shown, *(f"    {note}" for note in cell.notes)])


def summary(llm: LLM, cells: Sequence[Cell]) -> str:
    """The last lines: totals, what was audited on what, and the verdict of all."""
    target = llm.target
    machine = target.machine
    tokens, different = sum(cell.tokens_compared for cell in cells), sum(cell.differing for cell in cells)
    return "\n".join(
        [
            f"{len(cells)} cells, {tokens} tokens compared with the plain run, {different} differing: "
            f"{worst(cells)}",
            f"target {target.options.target}, weights {target.options.used_weights}, activations "
            f"{target.options.used_activations}, {target.exactness}, {llm.speculation.verification} "
            f"verification, draft length {llm.speculation.draft_length}",
            f"{machine['cpu']}, {machine['threads']} threads, {machine['runtime']}; {target.proof}",
        ]
    )


def as_dict(llm: LLM, cells: Sequence[Cell], *, skipped: Sequence[str] = ()) -> dict[str, object]:
    """The object of `audit --json`."""
    target = llm.target
    return {
        **target.conditions,
        "noise": target.proof.noise,
        "draft_length": llm.speculation.draft_length,
        "skipped_prompts": list(skipped),
        "cells": [
            {
                "draft": cell.case.draft,
                "sampling": cell.case.sampling,
                "setting": cell.case.setting,
                "verification": llm.speculation.verification,
                "tokens_compared": cell.tokens_compared,
                "accepted": cell.accepted,
                "corrected": cell.corrected,
                "differing": cell.differing,
                "verdict": cell.verdict,
                "notes": list(cell.notes),
            }
            for cell in cells
        ],
        "tokens_compared": sum(cell.tokens_compared for cell in cells),
        "differing": sum(cell.differing for cell in cells),
        "verdict": worst(cells),
    }

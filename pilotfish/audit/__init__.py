"""Audits: plain decoding against every proposer, setting and sampling; see `pilotfish.audit.run`.

    audit = Audit(llm, prompts, AuditOptions(max_tokens=48))
    cells = list(audit.run(all_cells(DRAFTS)))
    worst(cells)                    # "same"

Knows nothing of command lines.
"""

from pilotfish.audit.cells import DRAFTS, SAMPLINGS, Case, all_cells, few_cells
from pilotfish.audit.run import Audit, AuditOptions, Cell, worst

__all__ = ["DRAFTS", "SAMPLINGS", "Audit", "AuditOptions", "Case", "Cell", "all_cells", "few_cells", "worst"]

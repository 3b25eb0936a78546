"""One sequence's part in one pass: what is read, what was proposed, what of it is verified.

Knows nothing of caches, rows or verdicts.
"""

from __future__ import annotations

from dataclasses import dataclass

from pilotfish.draft import EMPTY, Draft
from pilotfish.engine.scheduler import Work


@dataclass(frozen=True)
class Round:
    """One sequence's part in one pass.

    draft     the nodes that are verified (a chain)
    proposed  the draft as the proposer gave it: what was cut from it can still be learned from
    """

    work: Work
    draft: Draft = EMPTY
    proposed: Draft = EMPTY

    @property
    def tokens(self) -> list[int]:
        """The tokens of the slice before any pad: those read, then the draft's."""
        sequence, read = self.work.sequence, self.work.read
        return [*sequence.tokens[sequence.computed : sequence.computed + read], *self.draft.tokens]

    @property
    def wanted(self) -> range:
        """The tokens whose logits are wanted: the last one read and the draft's nodes, if at all."""
        last = self.work.read - 1
        return range(last, last + 1 + len(self.draft)) if self.work.completes else range(0)

    @property
    def lesson(self) -> Draft:
        """What can be learned from: all that was proposed, but of drawn nodes only those verified
        (the others say nothing about how often such draws are accepted)."""
        return self.proposed if self.proposed.laws is None else self.proposed.keep(range(len(self.draft)))

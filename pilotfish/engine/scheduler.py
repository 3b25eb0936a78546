"""Who takes part in the next pass, and how many of their tokens are read.

Decoding sequences come first and take turns where not all fit; prompts share what is left, and
half of a pass is kept for them while any waits, so that neither stalls the other. A sequence that
brings fewer tokens than the exact form asks for is padded by the engine; the pad's row is counted
here.

Knows nothing of drafts, text or sampling.
"""

from __future__ import annotations

from collections.abc import Sequence as Series
from dataclasses import dataclass

from pilotfish.engine.sequence import Sequence
from pilotfish.model.runner import Form


@dataclass(frozen=True)
class Work:
    """A sequence's part in a pass.

    read       how many of its uncomputed tokens are read
    completes  True when these are all, so that the row after its last token comes out
    """

    sequence: Sequence
    read: int
    completes: bool


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """max_sequences  choices that run at the same time; more wait their turn
    prefill_chunk  most prompt tokens of one sequence in a pass (0: as many as fit)
    """

    max_sequences: int = 16
    prefill_chunk: int = 0


class Scheduler:
    """Shares the rows of a pass. `schedule` before each pass; it changes no sequence."""

    def __init__(self, form: Form, config: SchedulerConfig) -> None:
        self._form = form
        self._chunk = config.prefill_chunk or form.max_rows
        self._turn = 0

    def schedule(self, running: Series[Sequence]) -> list[Work]:
        """The work of the next pass, at most `form.max_rows` rows; empty only when nothing runs."""
        decoding = [sequence for sequence in running if sequence.uncomputed == 1 and sequence.computed]
        reading = [sequence for sequence in running if not (sequence.uncomputed == 1 and sequence.computed)]
        room = self._form.max_rows
        fit = (room // 2 if reading else room) // self._form.min_tokens
        works = [Work(sequence, 1, completes=True) for sequence in self._turns(decoding, fit)]
        room -= len(works) * self._form.min_tokens
        for sequence in reading:
            if room < self._form.min_tokens:
                break
            read = min(sequence.uncomputed, self._chunk, room)
            works.append(Work(sequence, read, completes=read == sequence.uncomputed))
            room -= max(read, self._form.min_tokens)
        return works

    def _turns(self, decoding: list[Sequence], fit: int) -> list[Sequence]:
        if len(decoding) <= fit:
            return decoding
        first = self._turn % len(decoding)
        self._turn += fit
        return (decoding + decoding)[first : first + fit]

"""Proposers: whatever guesses the next tokens cheaply.

A proposer is three verbs. `propose` guesses, best first, up to a budget of nodes; it does not
decide how much is worth verifying. `observe` learns what became of the guesses. `forget` is
told that a sequence is gone.

Knows nothing of caches, runtimes or sampling parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pilotfish.draft import EMPTY, Draft, Verdict


class Context(Protocol):
    """A sequence as a proposer sees it. `tokens` only ever grows at its end."""

    @property
    def id(self) -> int: ...

    @property
    def tokens(self) -> list[int]: ...  # prompt, then output so far

    @property
    def prompt_length(self) -> int: ...


@dataclass(frozen=True)
class Observation:
    """One round of one sequence, as told to proposers after the sequence has been extended.

    read_tokens  [row] the token at each row the target computed logits for: the last token
                 before the draft, then the draft's nodes in order (perhaps only the first few)
    top_ids      [row, k] the target's k best next tokens after each of them, best first
                 (raw logits, before any processor)
    """

    sequence: Context
    draft: Draft
    verdict: Verdict
    read_tokens: np.ndarray
    top_ids: np.ndarray


class Proposer(Protocol):
    """Three verbs; see the module.

    top_k       how many ids per row `observe` wants (0: none)
    calibrated  True when the survival it states has been learned from outcomes already
    """

    name: str
    top_k: int
    calibrated: bool

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        """One draft per sequence, at most `budget` nodes each, best first."""
        ...

    def observe(self, observations: Sequence[Observation]) -> None:
        """Learn from a finished round."""
        ...

    def forget(self, sequence: Context) -> None:
        """The sequence is finished or aborted; drop what was kept for it alone."""
        ...


class Nothing:
    """The proposer that proposes nothing. Plain decoding is speculation with it."""

    name = "none"
    top_k = 0
    calibrated = True

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [EMPTY] * len(sequences)

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def forget(self, sequence: Context) -> None:
        pass

"""Counts of what speculation did, and the ratios that follow from them.

A round is one target pass of one sequence that emitted tokens; a drafted round had draft nodes.
Two identities always hold and `check` tests them:

    emitted == accepted + rounds
    accepted == sum(accepted_per_position) == sum(accepted by source)

Knows nothing of time; see `Timing` in `engine/request.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pilotfish.draft import Draft, Verdict
from pilotfish.errors import PilotfishError


@dataclass
class Stats:
    """Counts only; every ratio is derived, with vLLM's definitions.

    accepted  edges walked to a node from which another token was drawn
    corrected rounds whose last token was drawn at a node with children and is none of them
    """

    rounds: int = 0
    drafted_rounds: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    corrected_rounds: int = 0
    emitted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    drafted_by_source: dict[str, int] = field(default_factory=dict)
    accepted_by_source: dict[str, int] = field(default_factory=dict)

    def count(self, draft: Draft, verdict: Verdict) -> None:
        """Add one round."""
        self.rounds += 1
        self.drafted_rounds += bool(len(draft))
        self.draft_tokens += len(draft)
        self.accepted_tokens += len(verdict.path)
        self.corrected_rounds += verdict.corrected(draft)
        self.emitted_tokens += len(verdict.path) + 1
        for source in draft.sources:
            self.drafted_by_source[source] = self.drafted_by_source.get(source, 0) + 1
        for position, node in enumerate(verdict.path):
            if position == len(self.accepted_per_position):
                self.accepted_per_position.append(0)
            self.accepted_per_position[position] += 1
            source = draft.sources[node]
            self.accepted_by_source[source] = self.accepted_by_source.get(source, 0) + 1

    def add(self, other: Stats) -> None:
        """Add the counts of another."""
        for name in ("rounds", "drafted_rounds", "draft_tokens", "accepted_tokens", "corrected_rounds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.emitted_tokens += other.emitted_tokens
        lacking = len(other.accepted_per_position) - len(self.accepted_per_position)
        self.accepted_per_position.extend([0] * lacking)
        for position, accepted in enumerate(other.accepted_per_position):
            self.accepted_per_position[position] += accepted
        for mine, others in (
            (self.drafted_by_source, other.drafted_by_source),
            (self.accepted_by_source, other.accepted_by_source),
        ):
            for source, count in others.items():
                mine[source] = mine.get(source, 0) + count

    @property
    def acceptance_rate(self) -> float:
        """Accepted over drafted tokens; 0 where nothing was drafted."""
        return self.accepted_tokens / self.draft_tokens if self.draft_tokens else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """1 + accepted tokens over drafted rounds; 1 where nothing was drafted."""
        return 1 + (self.accepted_tokens / self.drafted_rounds if self.drafted_rounds else 0.0)

    def check(self) -> None:
        """Test the identities. Raises PilotfishError with the terms."""
        by_source = sum(self.accepted_by_source.values())
        if (
            self.emitted_tokens != self.accepted_tokens + self.rounds
            or self.accepted_tokens != sum(self.accepted_per_position)
            or self.accepted_tokens != by_source
        ):
            raise PilotfishError(
                f"the counts disagree: emitted {self.emitted_tokens}, accepted {self.accepted_tokens}, "
                f"rounds {self.rounds}, per position {self.accepted_per_position}, "
                f"by source {self.accepted_by_source}"
            )

    def as_dict(self) -> dict[str, object]:
        """The fields of the `speculation` object in reports."""
        return {
            "rounds": self.rounds,
            "drafted_rounds": self.drafted_rounds,
            "draft_tokens": self.draft_tokens,
            "accepted_tokens": self.accepted_tokens,
            "corrected_rounds": self.corrected_rounds,
            "acceptance_rate": round(self.acceptance_rate, 4),
            "mean_acceptance_length": round(self.mean_acceptance_length, 4),
            "accepted_per_position": list(self.accepted_per_position),
            "by_source": {
                source: {"draft_tokens": drafted, "accepted_tokens": self.accepted_by_source.get(source, 0)}
                for source, drafted in sorted(self.drafted_by_source.items())
            },
        }

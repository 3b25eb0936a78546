"""What was asked (Request), and what the engine tells about it as it goes (Event).

Knows nothing of caches, drafts or models.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pilotfish.engine.stats import Stats
from pilotfish.sampling import SamplingParams


@dataclass(frozen=True, kw_only=True)
class Request:
    """One prompt and how to continue it.

    prompt  token ids, at least one
    params  sampling parameters; `params.n` choices are generated
    seed    the seed that is used: `params.seed`, or one drawn when that is None
    """

    prompt: tuple[int, ...]
    params: SamplingParams
    seed: int


@dataclass(frozen=True)
class TokenLogprobs:
    """The log-probability of one emitted token, and the best alternatives at its position."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]  # (token, logprob), best first


@dataclass
class Timing:
    """Moments of one choice, in seconds of a monotonic clock; 0 where it has not come yet."""

    added: float = field(default_factory=time.perf_counter)
    first_token: float = 0.0
    last_token: float = 0.0

    def tick(self) -> None:
        """A round has emitted tokens."""
        self.last_token = time.perf_counter()
        self.first_token = self.first_token or self.last_token


@dataclass(frozen=True)
class Summary:
    """What is known of a choice once it is finished."""

    stats: Stats
    timing: Timing


@dataclass(frozen=True)
class Event:
    """News of one choice of one request: the tokens of a round, or its end.

    text           what may be shown now; concatenated over events it is the choice's text
    tokens         ids emitted by this round, the one that completed a stop included
    origins        per token: the source that drafted it, "corrected" where the target refused
                   the drafted ones, or "target"
    finish_reason  "stop", "length", "aborted" or "error" with the last event, else None
    error          what went wrong, for "error"
    summary        counts and moments, with the last event
    """

    request_id: int
    choice: int
    text: str = ""
    tokens: tuple[int, ...] = ()
    origins: tuple[str, ...] = ()
    logprobs: tuple[TokenLogprobs, ...] = ()
    finish_reason: str | None = None
    error: str | None = None
    summary: Summary | None = None

"""Prompt lookup: what followed the last few tokens the last time they occurred here.

    proposer = Ngram(max_match=4, min_match=2)
    proposer.propose([sequence], budget=3)      # one chain per sequence, or EMPTY

Looks only at the sequence itself. Knows nothing of other requests, of models, or of how much of
its guess is worth verifying.
"""

from __future__ import annotations

from collections.abc import Sequence

from pilotfish.draft import EMPTY, Draft
from pilotfish.errors import BadRequest
from pilotfish.propose import Context, Observation

# Measured on greedy text of the embedded model: how often the next token is right, by match length.
TRUST = (0.0, 0.4, 0.54, 0.75, 0.65, 0.77, 0.8, 0.85, 0.9)


class Ngram:
    """Longest match of the last n tokens, n from max_match down to min_match; the most recent
    earlier occurrence wins.

    `propose` indexes what is new in each sequence first, so it may be called at any time;
    `observe` has nothing to learn; `forget` drops the index.
    """

    name = "ngram"
    calibrated = False
    top_k = 0

    def __init__(self, max_match: int = 8, min_match: int = 1) -> None:
        if not 1 <= min_match <= max_match:
            raise BadRequest(
                f"ngram was asked to match {min_match} to {max_match} tokens; "
                "give 1 <= min_match <= max_match"
            )
        self.max_match = max_match
        self.min_match = min_match
        self._indexes: dict[int, _Index] = {}

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self._propose(sequence, budget) for sequence in sequences]

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def forget(self, sequence: Context) -> None:
        self._indexes.pop(sequence.id, None)

    def _propose(self, sequence: Context, budget: int) -> Draft:
        index = self._indexes.get(sequence.id)
        if index is None:
            index = self._indexes[sequence.id] = _Index(self.min_match, self.max_match)
        tokens = sequence.tokens
        index.extend(tokens)
        place, length = index.find(tokens)
        if length == 0 or budget < 1:
            return EMPTY
        ids = tokens[place : place + budget]
        while len(ids) < budget:  # the copy has reached its own output: text with a short period
            ids.append(ids[len(ids) - len(tokens) + place])
        trust = TRUST[min(length, len(TRUST) - 1)]
        return Draft.chain(
            ids, source=self.name, match_length=length, survival=[trust**k for k in range(1, budget + 1)]
        )


class _Index:
    """Where each n-gram of one sequence was last continued; one dictionary per n."""

    def __init__(self, min_match: int, max_match: int) -> None:
        self._last: dict[int, dict[tuple[int, ...], int]] = {
            n: {} for n in range(max_match, min_match - 1, -1)
        }
        self._done = 0  # n-grams that end before this token are indexed

    def extend(self, tokens: list[int]) -> None:
        # An n-gram is indexed once a token follows it, so a look-up never finds itself.
        for n, last in self._last.items():
            for end in range(max(self._done, n), len(tokens)):
                last[tuple(tokens[end - n : end])] = end
        self._done = max(self._done, len(tokens))

    def find(self, tokens: list[int]) -> tuple[int, int]:
        """The place of the token to continue with, and the match length (0: none)."""
        for n, last in self._last.items():
            place = last.get(tuple(tokens[-n:])) if n <= len(tokens) else None
            if place is not None:
                return place, n
        return 0, 0

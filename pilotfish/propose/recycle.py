"""Token recycling (Luo et al. 2024, arXiv 2408.08696): the target's own top ids, kept per context.

After every pass the target's best next ids are known at each row it read, accepted or not. They are
kept under the last token (as in the paper) and under the last two tokens, which predict far better,
and drafted when that context comes again.

    proposer = Recycle(width=8)
    proposer.observe([observation])           # needs observation.top_ids, `top_k` wide
    proposer.propose([sequence], budget=7)    # a chain; a tree, best first, with trees=True

How likely rank r is, is learned from what really followed (see `ranks`). One table is shared by all
sequences. match_length says what a node rests on: 2 tokens, or 1.

Knows nothing of the sequences' older text, of models or of verification.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from pilotfish.draft import ROOT, Draft
from pilotfish.errors import BadRequest
from pilotfish.propose import Context, Observation
from pilotfish.propose.ranks import RankTable

# Measured on greedy text of the embedded model, by a row's mark and rank.
PAIR_PRIOR = (
    (0.24, 0.19, 0.06, 0.02),
    (0.60, 0.11, 0.03, 0.02),
    (0.78, 0.05, 0.03, 0.01),
    (0.94, 0.01, 0.01, 0.0),
)
SINGLE_PRIOR = (
    (0.12, 0.10, 0.05, 0.03),
    (0.29, 0.10, 0.05, 0.02),
    (0.45, 0.08, 0.06, 0.03),
    (0.61, 0.05, 0.03, 0.01),
)
NO_TOKEN = (1 << 31) - 1  # stands for what comes before the first token
SMALLEST = 0.02  # a node less likely than this is not drafted


class Guess(NamedTuple):
    """One possible next token."""

    token: int
    confidence: float
    match_length: int


class Recycle:
    """Token recycling with two-token contexts.

    `observe` learns from all rows of a round; nothing is kept per sequence, so `forget` has nothing
    to drop. `extend` continues any text by one token, for proposers that build on others.
    """

    name = "recycle"
    calibrated = False

    def __init__(self, width: int = 8, *, trees: bool = False, slots: int = 1 << 16) -> None:
        if width < 1 or slots < 1:
            raise BadRequest(
                f"recycle was asked for width {width} and {slots} slots; give at least 1 of each"
            )
        self.top_k = width
        self.trees = trees
        self._pairs = RankTable(width, slots, PAIR_PRIOR)
        self._singles = RankTable(width, slots, SINGLE_PRIOR)

    def extend(self, tokens: tuple[int, ...], most: int | None = None) -> list[Guess]:
        """The next ids after a text of which the last two tokens matter, best first, `most` of them;
        [] if the context is unknown."""
        most = self.top_k if most is None else most
        if len(tokens) >= 2 and (ranked := self._pairs.look(_pair(tokens[-2], tokens[-1]), most)):
            return [Guess(token, confidence, 2) for token, confidence in ranked]
        if tokens and (ranked := self._singles.look(_single(tokens[-1]), most)):
            return [Guess(token, confidence, 1) for token, confidence in ranked]
        return []

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self._propose(tuple(sequence.tokens[-2:]), budget) for sequence in sequences]

    def observe(self, observations: Sequence[Observation]) -> None:
        for observation in observations:
            self._observe(observation)

    def forget(self, sequence: Context) -> None:
        pass

    def _propose(self, last: tuple[int, ...], budget: int) -> Draft:
        nodes: list[tuple[Guess, int, float]] = []  # guess, parent, survival
        heap: list[tuple[float, int, int, Guess, int]] = []  # -survival, parent, rank, guess, token above
        widest = self.top_k if self.trees else 1

        def offer(parent: int, above: float, context: tuple[int, ...]) -> None:
            for rank, guess in enumerate(self.extend(context, widest)):
                chance = above * guess.confidence
                if chance >= SMALLEST:
                    heapq.heappush(heap, (-chance, parent, rank, guess, context[-1]))

        offer(ROOT, 1.0, last)
        while heap and len(nodes) < budget:
            negative, parent, _, guess, above = heapq.heappop(heap)
            nodes.append((guess, parent, -negative))
            offer(len(nodes) - 1, -negative, (above, guess.token))
        return Draft(
            tuple([guess.token for guess, _, _ in nodes]),
            tuple([parent for _, parent, _ in nodes]),
            (self.name,) * len(nodes),
            tuple([guess.match_length for guess, _, _ in nodes]),
            tuple([survival for _, _, survival in nodes]),
        )

    def _observe(self, observation: Observation) -> None:
        draft, verdict, top_ids = observation.draft, observation.verdict, observation.top_ids
        read: list[int] = observation.read_tokens.tolist()
        if top_ids.ndim != 2 or top_ids.shape[1] < 1 or len(read) != len(top_ids):
            return  # a round that ranked no rows teaches nothing
        text = observation.sequence.tokens
        first = len(text) - len(verdict.path) - 2  # the place of the last token before the draft
        before = text[first - 1] if first >= 1 else NO_TOKEN
        above = [before, *(read[0] if parent == ROOT else draft.tokens[parent] for parent in draft.parents)]
        pairs = [_pair(one, other) for one, other in zip(above, read, strict=False)]
        singles = [_single(token) for token in read]
        row = 0
        for node, token in zip((*verdict.path, ROOT), verdict.emitted(draft), strict=True):
            # One token's row is only used where two tokens have none, so only there is it tested.
            if row < len(pairs) and not self._pairs.test(pairs[row], token):
                self._singles.test(singles[row], token)
            row = node + 1
        self._pairs.store(pairs, top_ids[: len(pairs)])
        self._singles.store(singles, top_ids)


def _pair(first: int, second: int) -> int:
    """A key of two tokens. Ids outside of [0, 2^31) cannot be accepted, so mixing them is harmless."""
    return (first & 0x7FFFFFFF) << 31 | (second & 0x7FFFFFFF)


def _single(token: int) -> int:
    return token & 0x7FFFFFFF

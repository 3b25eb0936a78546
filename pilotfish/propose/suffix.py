"""SuffixDecoding (Oliaro et al. 2024, arXiv 2411.04975): continue as text that ended alike went on.

Two texts are searched: this request (prompt and output), and the outputs of past requests. For every
match length m of the last tokens, the places where they occurred form a tree of continuations; its
most frequent path is a candidate, scored by the sum of its path probabilities (an estimate of the
tokens that will be accepted). The best score wins, the longer match on ties.

    proposer = Suffix()
    proposer.propose([sequence], budget=7)     # one chain per sequence, or EMPTY
    proposer.forget(sequence)                  # its output joins the texts that others can match

Counts are taken over places that do go on: the end of a text says nothing about what follows.
(Measured: counting the context itself as one more place, or any other discount for matches seen
once, changes the accepted tokens by less than 0.5 %. `Survival` corrects the optimism.)

Knows nothing of models, verification or other proposers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pilotfish.draft import EMPTY, Draft
from pilotfish.errors import BadRequest
from pilotfish.propose import Context, Observation
from pilotfish.propose.occurrences import WALL, Archive, Growing


@dataclass(frozen=True, slots=True)
class Path:
    """A candidate: tokens, the probability of the path up to each, and the match it rests on."""

    tokens: list[int]
    survival: list[float]
    match_length: int
    score: float


NO_PATH = Path([], [], 0, 0.0)


class Suffix:
    """SuffixDecoding over this request and past outputs.

    `propose` and `observe` index what is new; `forget` moves the output to the archive.
    """

    name = "suffix"
    calibrated = False
    top_k = 0

    def __init__(
        self,
        *,
        min_token_prob: float = 0.1,
        longest: int = 16,
        cap: int = 24,
        max_bytes: int = 32 << 20,
    ) -> None:
        if not 0.0 <= min_token_prob <= 1.0 or longest < 1 or cap < 1 or max_bytes < 0:
            raise BadRequest(
                f"suffix was asked for min_token_prob={min_token_prob}, longest={longest}, "
                f"cap={cap}, max_bytes={max_bytes}; give a probability, and sizes that are not negative"
            )
        self.min_token_prob = min_token_prob
        self.longest = longest
        self.cap = cap
        self.archive = Archive(max_bytes)
        self._texts: dict[int, Growing] = {}

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self._propose(sequence, budget) for sequence in sequences]

    def observe(self, observations: Sequence[Observation]) -> None:
        for observation in observations:
            self._text(observation.sequence)

    def forget(self, sequence: Context) -> None:
        # Only a known sequence is archived, so that forgetting twice does not count it twice.
        if self._texts.pop(sequence.id, None) is not None:
            self.archive.add(sequence.tokens[sequence.prompt_length :])

    def _text(self, sequence: Context) -> Growing:
        text = self._texts.get(sequence.id)
        if text is None:
            text = self._texts[sequence.id] = Growing()
        if len(text) < len(sequence.tokens):
            text.extend(sequence.tokens[len(text) :])
        return text

    def _propose(self, sequence: Context, budget: int) -> Draft:
        text = self._text(sequence)
        if budget < 1:
            return EMPTY
        recent = text.recent(self.longest)
        best = self._best(text, recent, budget, NO_PATH)
        best = self._best(self.archive, recent, budget, best)
        if not best.tokens:
            return EMPTY
        return Draft.chain(
            best.tokens, source=self.name, match_length=best.match_length, survival=best.survival
        )

    def _best(self, text: Growing | Archive, recent: list[int], budget: int, best: Path) -> Path:
        # From the longest match down, so a shorter one must be strictly better.
        for match_length, places in text.matches(recent, self.cap, self.longest):
            if best.score >= budget:
                break
            path = self._path(text.tokens, places, match_length, budget)
            if path.score > best.score:
                best = path
        return best

    def _path(self, text: Sequence[int], places: list[int], match_length: int, budget: int) -> Path:
        """The most frequent continuation of these places (newest first; the newest wins ties)."""
        tokens: list[int] = []
        survival: list[float] = []
        probability = 1.0
        for depth in range(budget):
            following = [text[place + depth] for place in places]
            token, count, total = _most_frequent(following)
            if not count:
                break
            probability *= count / total
            if probability < self.min_token_prob:
                break
            tokens.append(token)
            survival.append(probability)
            if count < len(following):
                places = [place for place, after in zip(places, following, strict=True) if after == token]
        return Path(tokens, survival, match_length, sum(survival))


def _most_frequent(following: list[int]) -> tuple[int, int, int]:
    """The most frequent token that is no wall (the first of them on ties), its count, and how many
    are no walls."""
    token, total = following[0], len(following)
    count = following.count(token)
    if count == total:
        return (token, total, total) if token != WALL else (WALL, 0, 0)
    counts: dict[int, int] = {}
    for token in following:
        counts[token] = counts.get(token, 0) + 1
    total -= counts.pop(WALL, 0)
    token = max(counts, key=counts.__getitem__)
    return token, counts[token], total

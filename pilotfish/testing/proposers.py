"""Proposers that behave as told: always right, always wrong, sometimes right, malformed, sampled.

The scripted ones are given the plain output of the request, or a function from the sequence to it
(for several requests at once).

    Oracle(plain)                     always right
    Contrarian(plain, vocab=5)        always wrong
    Coin(plain, vocab=5, rate=0.8)    each token right with probability 0.8
    Sampled(draft, params, noise, widths=(2, 1))     draws from its own laws and keeps them

Know nothing of verification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random

import numpy as np

from pilotfish.draft import ROOT, Draft
from pilotfish.propose import Context, Observation
from pilotfish.sampling import History, Noise, Purpose, SamplingParams, draw_from_law, law, process
from pilotfish.testing.markov import MarkovTarget
from pilotfish.verify.continuation import Law

Plain = Sequence[int] | Callable[[Context], Sequence[int]]


class Scripted:
    """A proposer that knows the plain output and turns what comes next of it into a draft."""

    name = "scripted"
    top_k = 0
    calibrated = False

    def __init__(self, plain: Plain) -> None:
        self.plain = plain

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self.draft(self.ahead(sequence), len(sequence.tokens), budget) for sequence in sequences]

    def ahead(self, sequence: Context) -> Sequence[int]:
        """The plain output that is still to come."""
        plain = self.plain(sequence) if callable(self.plain) else self.plain
        return plain[len(sequence.tokens) - sequence.prompt_length :]

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        """What to make of it; `position` is the absolute position of its first token."""
        raise NotImplementedError

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def forget(self, sequence: Context) -> None:
        pass


class Oracle(Scripted):
    """Always right."""

    name = "oracle"

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        return Draft.chain(ahead[:budget], source=self.name)


class Contrarian(Scripted):
    """Always wrong, at every node of a chain."""

    name = "contrarian"

    def __init__(self, plain: Plain, *, vocab: int) -> None:
        super().__init__(plain)
        self.vocab = vocab

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        return Draft.chain([(token + 1) % self.vocab for token in ahead[:budget]], source=self.name)


class Coin(Scripted):
    """Each token is right with probability `rate`, decided by its position alone."""

    name = "coin"

    def __init__(self, plain: Plain, *, vocab: int, rate: float, seed: int = 0) -> None:
        super().__init__(plain)
        self.vocab, self.rate, self.seed = vocab, rate, seed

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        tokens = [self.flip(token, position + offset) for offset, token in enumerate(ahead[:budget])]
        return Draft.chain(tokens, source=self.name)

    def flip(self, token: int, position: int) -> int:
        """The token, or a wrong one."""
        right = Random(f"{self.seed}/{position}").random() < self.rate
        return token if right else (token + 1) % self.vocab


class Overlong(Scripted):
    """Right, but with `excess` nodes over the budget, and on past the end of the plain output."""

    name = "overlong"

    def __init__(self, plain: Plain, *, excess: int) -> None:
        super().__init__(plain)
        self.excess = excess

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        length = budget + self.excess
        padded = [*ahead, *([0] * length)]
        return Draft.chain(padded[:length], source=self.name)


class OutOfVocabulary(Scripted):
    """A tree of the right chain, with children beside it and below it that are no tokens at all."""

    name = "out-of-vocabulary"

    def __init__(self, plain: Plain, *, vocab: int) -> None:
        super().__init__(plain)
        self.vocab = vocab

    def draft(self, ahead: Sequence[int], position: int, budget: int) -> Draft:
        tokens: list[int] = []
        parents: list[int] = []
        parent = ROOT
        for token in ahead[: max(budget // 3, 1)]:
            right = len(tokens) + 1
            tokens += [-1, token, self.vocab]
            parents += [parent, parent, right - 1]  # the last hangs below the one that is no token
            parent = right
        count = len(tokens)
        return Draft(tuple(tokens), tuple(parents), (self.name,) * count, (0,) * count, (1.0,) * count)


class Sampled:
    """Draws a tree from its own table, without replacement among siblings, and keeps the laws.

    widths[d] children hang below every node of depth d; (1, 1, 1) is a chain of three. The laws are
    processed as the target's are: same parameters, its own path as history. Siblings share the law of
    the first draw. For one request: its noise is the request's.
    """

    name = "sampled"
    top_k = 0
    calibrated = False

    def __init__(
        self,
        table: MarkovTarget,
        params: SamplingParams,
        noise: Noise,
        *,
        widths: Sequence[int],
        eos_ids: Iterable[int] = (),
    ) -> None:
        self.table, self.params, self.noise = table, params, noise
        self.widths, self.eos_ids = widths, frozenset(() if params.ignore_eos else eos_ids)
        self.laws: dict[tuple[int, ...], Law] = {}  # computed once: enumerations ask again and again

    def propose(self, sequences: Sequence[Context], budget: int) -> list[Draft]:
        return [self.grow(sequence, budget, self.keyed(len(sequence.tokens))) for sequence in sequences]

    def keyed(self, round_start: int) -> Callable[[Law, int], int]:
        """Draws with the noise of one round: (law, position) -> token.

        Siblings share their noise: the best of law + noise, then the best of the rest, is drawing
        without replacement (Gumbel top-k).
        """

        def choose(draft_law: Law, position: int) -> int:
            return draw_from_law(
                draft_law, self.noise, position=position, purpose=Purpose.DRAFT, round_start=round_start
            )

        return choose

    def grow(self, sequence: Context, budget: int, choose: Callable[[Law, int], int]) -> Draft:
        """The tree, level by level, at most `budget` nodes, every token taken from `choose`."""
        start = len(sequence.tokens)
        tokens: list[int] = []
        parents: list[int] = []
        laws: list[Law | None] = []
        level: list[tuple[int, tuple[int, ...]]] = [(ROOT, ())]
        for depth, width in enumerate(self.widths):
            deeper = []
            for parent, path in level:
                stated = self.law_after(sequence, path)
                remaining = stated.copy()
                for _ in range(min(width, int(np.count_nonzero(stated)), budget - len(tokens))):
                    token = choose(remaining / remaining.sum(), start + depth)
                    remaining[token] = 0.0
                    deeper.append((len(tokens), (*path, token)))
                    tokens.append(token)
                    parents.append(parent)
                    laws.append(stated)
            level = deeper
        count = len(tokens)
        return Draft(
            tuple(tokens), tuple(parents), (self.name,) * count, (0,) * count, (1.0,) * count, tuple(laws)
        )

    def law_after(self, sequence: Context, path: tuple[int, ...]) -> Law:
        """The processed law of the draft's table after a path below the sequence."""
        tokens = (*sequence.tokens, *path)
        if tokens not in self.laws:
            history = History(tokens[: sequence.prompt_length], self.table.vocab)
            for token in tokens[sequence.prompt_length :]:
                history.push(token)
            scores = process(self.table.row(tokens), history, self.params, self.eos_ids)
            self.laws[tokens] = law(scores, self.table.vocab)
        return self.laws[tokens]

    def observe(self, observations: Sequence[Observation]) -> None:
        pass

    def forget(self, sequence: Context) -> None:
        self.laws.clear()

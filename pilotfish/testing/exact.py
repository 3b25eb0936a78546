"""Exact laws of random procedures, by going through every outcome; and a test for sampled ones.

    def two_coins(fork):
        return fork.choose([0.5, 0.5]) + fork.choose([0.5, 0.5])

    list(outcomes(two_coins))        # [(0, 0.25), (1, 0.25), (1, 0.25), (2, 0.25)]

The procedure is run once per outcome, from its start, and must take all its decisions from the fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from pilotfish.sampling import Scores, law
from pilotfish.verify.continuation import Law

Result = TypeVar("Result")


@dataclass
class Fork:
    """Decisions in the order in which they are asked for: first `script`, then always the first
    possible one. `taken` holds what was decided, `open` the possible decisions not yet gone through."""

    script: Sequence[int] = ()
    taken: list[int] = field(default_factory=list)
    open: list[list[int]] = field(default_factory=list)
    probability: float = 1.0

    def choose(self, weights: Sequence[float] | Law) -> int:
        """One index of positive weight; `probability` shrinks by its weight."""
        at = len(self.taken)
        possible = [index for index, weight in enumerate(weights) if weight > 0.0]
        choice = self.script[at] if at < len(self.script) else possible[0]
        self.taken.append(choice)
        self.open.append([index for index in possible if index > choice])
        self.probability *= float(weights[choice])
        return choice


def outcomes(procedure: Callable[[Fork], Result]) -> Iterator[tuple[Result, float]]:
    """Every outcome of a procedure with its probability (one outcome may come several times)."""
    script: list[int] | None = []
    while script is not None:
        fork = Fork(script)
        result = procedure(fork)
        yield result, fork.probability
        script = None
        for at in reversed(range(len(fork.taken))):
            if fork.open[at]:
                script = [*fork.taken[:at], fork.open[at][0]]
                break


@dataclass(frozen=True)
class ForkedChance:
    """The Chance of pilotfish.verify that goes through all outcomes instead of reading noise."""

    fork: Fork
    vocab: int

    def target_token(self, scores: Scores, *, position: int) -> int:
        return self.fork.choose(law(scores, self.vocab))

    def accepts(self, probability: float, *, position: int, trial: int = 0) -> bool:
        return self.fork.choose([probability, 1.0 - probability]) == 0

    def residual_token(self, residual_law: Law, *, position: int) -> int:
        return self.fork.choose(residual_law)


def chi_square_deviation(
    counts: Mapping[tuple[int, ...], int], law_of: Mapping[tuple[int, ...], float]
) -> float:
    """How far counts are from a law, in standard deviations of a normal (Wilson and Hilferty 1931).

    Above 3.1 has probability 0.001 under the law. Cells that expect fewer than 5 are pooled; an
    impossible outcome that was counted gives infinity.
    """
    total = sum(counts.values())
    if any(law_of.get(outcome, 0.0) <= 0.0 for outcome in counts):
        return float("inf")
    expected = {outcome: total * probability for outcome, probability in law_of.items()}
    cells = [(counts.get(outcome, 0), mean) for outcome, mean in expected.items() if mean >= 5.0]
    rare = [(counts.get(outcome, 0), mean) for outcome, mean in expected.items() if mean < 5.0]
    if sum(mean for _, mean in rare) > 0.0:
        cells.append((sum(count for count, _ in rare), sum(mean for _, mean in rare)))
    freedom = len(cells) - 1
    statistic = sum((count - mean) ** 2 / mean for count, mean in cells)
    spread = 2.0 / (9.0 * freedom)
    return float((np.cbrt(statistic / freedom) - (1.0 - spread)) / np.sqrt(spread))

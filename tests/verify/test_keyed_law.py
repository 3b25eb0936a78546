"""The law of four tokens over several rounds, with the real keyed noise, over many seeds.

The exact tests replace the noise; this one would catch a number that is looked at twice, and the last
tests plant such faults to prove it. Seeds are fixed, so nothing here can fail by chance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pilotfish.sampling import Noise, Purpose, SamplingParams, draw_from_law
from pilotfish.testing import (
    MarkovTarget,
    PlainLaw,
    Sampled,
    WorldContinuation,
    chi_square_deviation,
    run_round,
)
from pilotfish.verify import Chance, Keyed, Law

SEEDS = 2500
LIMIT = 3.1  # standard deviations; the law itself passes it with probability 0.001
RANDOM = tuple(MarkovTarget.random(seed=seed, vocab=3, spread=0.8) for seed in (21, 22))
BALANCED = (MarkovTarget.fixed([0.5, 0.5]), MarkovTarget.fixed([0.75, 0.25]))  # block's h_i: 0.2, 1, ...
SKEWED = (MarkovTarget.fixed([0.2, 0.3, 0.5]), MarkovTarget.fixed([0.6, 0.25, 0.15]))
PENALTIES = {"temperature": 2.0, "top_k": 2, "repetition_penalty": 1.2, "frequency_penalty": 0.4}

KeyedBy = Callable[[Noise, int], Chance]


def deviation(
    kind: str,
    widths: tuple[int, ...],
    world: tuple[MarkovTarget, ...] = RANDOM,
    *,
    chance: KeyedBy = Keyed,
    round_key: int | None = None,
    setting: Mapping[str, Any] | None = None,
) -> float:
    """How far the outputs over many seeds are from the plain law; `chance`, `round_key` plant faults."""
    target, table = world
    params = SamplingParams(**{"max_tokens": 4, "temperature": 1.0} | dict(setting or {}))
    counts: Counter[tuple[int, ...]] = Counter()
    laws: dict[tuple[int, ...], Law] = {}
    for seed in range(SEEDS):
        noise = Noise(seed, 0)
        proposer = Sampled(table, params, noise, widths=widths)
        proposer.laws = laws  # the same for all seeds
        sequence = WorldContinuation([0], vocab=target.vocab, params=params, noise=noise)
        while sequence.finish_reason is None:
            key = sequence.position if round_key is None else round_key
            draft = proposer.grow(sequence, 9, proposer.keyed(key))
            run_round(target, draft, sequence, kind=kind, chance=chance(noise, key))
        counts[tuple(sequence.output)] += 1
    return chi_square_deviation(counts, PlainLaw(target, params, prompt=[0]).outputs(params.max_tokens))


@pytest.mark.parametrize(("kind", "widths"), [("coupled", ()), ("rejection", (2, 1))])
def test_four_tokens_have_the_plain_law(kind: str, widths: tuple[int, ...]) -> None:
    assert deviation(kind, widths) < LIMIT


@pytest.mark.parametrize("kind", ["rejection", "block"])
def test_chains_with_truncation_and_penalties(kind: str) -> None:
    assert deviation(kind, (1, 1), setting=PENALTIES) < LIMIT


def test_a_balanced_world_has_the_plain_law() -> None:
    assert deviation("block", (1, 1, 1), BALANCED) < LIMIT


def test_without_the_round_in_the_key_block_goes_wrong() -> None:
    """Block verification looks at the whole draft, so the next round must not see its numbers again."""
    assert deviation("block", (1, 1, 1), BALANCED, round_key=0) > LIMIT


class OneNumber(Keyed):
    """A fault: the trials of all lengths read one number."""

    def accepts(self, probability: float, *, position: int, trial: int = 0) -> bool:
        return super().accepts(probability, position=self.round_start, trial=trial)


class OneTrial(Keyed):
    """A fault: all siblings are tried with one number."""

    def accepts(self, probability: float, *, position: int, trial: int = 0) -> bool:
        return super().accepts(probability, position=position)


class DraftNoise(Keyed):
    """A fault: the residual is drawn with the numbers that drew the draft."""

    def residual_token(self, residual_law: Law, *, position: int) -> int:
        return draw_from_law(
            residual_law, self.noise, position=position, purpose=Purpose.DRAFT, round_start=self.round_start
        )


def test_a_skewed_world_has_the_plain_law() -> None:
    assert deviation("rejection", (2,), SKEWED) < LIMIT


@pytest.mark.parametrize(
    ("fault", "kind", "widths", "world"),
    [
        (OneNumber, "block", (1, 1), BALANCED),
        (OneTrial, "rejection", (2,), SKEWED),
        (DraftNoise, "rejection", (1,), SKEWED),
    ],
)
def test_a_number_looked_at_twice_is_caught(
    fault: KeyedBy, kind: str, widths: tuple[int, ...], world: tuple[MarkovTarget, ...]
) -> None:
    assert deviation(kind, widths, world, chance=fault, setting={"max_tokens": len(widths)}) > LIMIT

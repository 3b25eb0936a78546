"""The self-check: proves a runner whose rows never change, and finds each way in which they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pilotfish.errors import PilotfishError
from pilotfish.model.runner import NUMERIC, Output, Slice, best_ids
from pilotfish.model.selfcheck import LENGTH, Proof, prove
from pilotfish.testing import Faults, MarkovTarget, WorldRunner

TARGET = MarkovTarget.random(seed=1, vocab=6)


def make(kind: type[WorldRunner] = WorldRunner, *, context: int = 1024, noise: float = 0.0) -> WorldRunner:
    return kind(
        TARGET,
        context=context,
        blocks=160,
        block_size=32,
        depends_on_past=0.5,
        faults=Faults(lone_noise=noise),
    )


def test_an_exact_runner_is_proven() -> None:
    proof = prove(make())
    assert proof.form.bitwise and proof.form.min_tokens == 2 and proof.form.max_rows == 512
    assert proof.differing == 0 and proof.compared > LENGTH and proof.noise == 0.0
    assert "bitwise proven" in str(proof)


def test_lone_tokens_that_differ_are_noise_not_a_refutation() -> None:
    proof = prove(make(noise=0.3))
    assert proof.form.bitwise and 0.1 < proof.noise <= 0.3


@pytest.mark.parametrize("context", [256, 257, 96])
def test_short_contexts(context: int) -> None:
    """The reference itself may never bring one token (257), nor go past the context."""
    assert prove(make(context=context, noise=0.3)).form.bitwise


class Broken(WorldRunner):
    """Adds a little to the rows of slices that `wrong` names."""

    def wrong(self, batch: Sequence[Slice], part: Slice) -> bool:
        raise NotImplementedError

    def forward(self, batch: Sequence[Slice]) -> Output:
        output = super().forward(batch)
        for part, rows in zip(batch, output.logits, strict=True):
            if self.wrong(batch, part):
                rows += np.float32(1e-3)
        return output


def broken(rule: Callable[[Sequence[Slice], Slice], bool]) -> type[WorldRunner]:
    return type("Found", (Broken,), {"wrong": lambda self, batch, part: rule(batch, part)})


@pytest.mark.parametrize(
    "rule",
    [
        lambda batch, part: len(part.tokens) == 2,
        lambda batch, part: len(part.tokens) == 33,
        lambda batch, part: len(batch) > 1,
        lambda batch, part: part.blocks[0] > part.blocks[-1] and len(part.tokens) < 48,
        lambda batch, part: part.start % 32 == 31 or part.start == 512,
    ],
    ids=["two tokens", "33 tokens", "neighbours", "block order", "block edges"],
)
def test_rows_that_change_are_found(rule: Callable[[Sequence[Slice], Slice], bool]) -> None:
    proof = prove(make(broken(rule)))
    assert proof.form == NUMERIC and proof.differing > 0 and proof.noise >= 0.9e-3
    assert "not proven" in str(proof)


def test_wide_passes_that_differ_narrow_the_form() -> None:
    proof = prove(make(broken(lambda batch, part: sum(len(other.tokens) for other in batch) > 100)))
    assert proof.form.bitwise and proof.form.max_rows == 64 and proof.noise > 0


def test_a_cache_that_is_too_small_is_named() -> None:
    with pytest.raises(PilotfishError, match="5120 slots"):
        prove(WorldRunner(TARGET, context=1024, blocks=10, block_size=32))


def test_proofs_are_kept_and_read_back() -> None:
    proof = prove(make(context=96))
    assert Proof.from_dict(proof.as_dict()) == proof
    for damaged in ({}, {"form": 3}, proof.as_dict() | {"more": 1}):
        with pytest.raises((KeyError, TypeError)):
            Proof.from_dict(damaged)


@pytest.mark.parametrize(
    ("vocab", "count"), [(7, 3), (512, 5), (2048, 8), (1000, 4), (512, 0), (3, 9), (1024, 4)]
)
def test_best_ids_are_the_best_ids(vocab: int, count: int) -> None:
    rows = np.random.default_rng(vocab).normal(size=(5, vocab)).astype(np.float32)
    expected = np.argsort(-rows, axis=1, kind="stable")[:, :count]
    assert (best_ids(rows, count) == expected).all()
    assert best_ids(rows[:0], count).shape == (0, count)

"""What `verify` refuses, and the shape of what it returns."""

from __future__ import annotations

import numpy as np
import pytest

from pilotfish.draft import ROOT, Draft, Verdict
from pilotfish.errors import BadDraft, BadLogits, BadRequest
from pilotfish.sampling import SamplingParams
from pilotfish.testing import MarkovTarget, WorldContinuation
from pilotfish.verify import Verification, verify

KINDS = ["coupled", "rejection", "block"]
UNIFORM = np.full(4, 0.25)


def fresh(temperature: float = 1.0) -> WorldContinuation:
    params = SamplingParams(max_tokens=9, temperature=temperature, seed=1)
    return WorldContinuation([0], vocab=4, params=params)


def pair(*, laws: tuple[np.ndarray | None, ...] | None, parents: tuple[int, int] = (ROOT, ROOT)) -> Draft:
    return Draft((1, 2), parents, ("test",) * 2, (0, 0), (1.0, 1.0), laws)


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadRequest, match=r"'rejektion'.*mean 'rejection'.*coupled, rejection, block"):
        verify("rejektion", Draft(), [np.zeros(4, np.float32)], fresh())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", [-1, 4, 10**6])
def test_a_token_outside_the_vocabulary_is_refused(kind: str, token: int) -> None:
    sequence = fresh()
    with pytest.raises(BadDraft, match=f"node 1 holds token {token}"):
        verify(kind, Draft.chain([0, token], source="test"), np.zeros((3, 4), np.float32), sequence)
    assert sequence.output == []


@pytest.mark.parametrize("kind", ["rejection", "block"])
@pytest.mark.parametrize(
    ("law", "message"),
    [
        (np.full(5, 0.2), "shape"),
        (np.full(4, 0.3), "sum to 1"),
        (np.array([0.5, 0.0, 0.5, 0.0]), "gives no probability"),
        (np.array([0.5, 1.0, -0.5, 0.0]), "non-negative"),
        (np.full(4, np.nan), "sum"),
    ],
)
def test_a_law_that_is_no_law_is_refused(kind: str, law: np.ndarray, message: str) -> None:
    draft = Draft.chain([1], source="test", laws=[law])
    with pytest.raises(BadDraft, match=message):
        verify(kind, draft, np.zeros((2, 4), np.float32), fresh())


def test_siblings_with_and_without_a_law() -> None:
    rows = np.zeros((3, 4), np.float32)
    for laws in [(UNIFORM, None), (None, UNIFORM)]:
        with pytest.raises(BadDraft, match="nodes 0 and 1 are siblings"):
            verify("rejection", pair(laws=laws), rows, fresh())
        verify("rejection", pair(laws=laws, parents=(ROOT, 0)), rows, fresh())
        verify("coupled", pair(laws=laws), rows, fresh())  # looks at no law


@pytest.mark.parametrize("laws", [None, (UNIFORM, UNIFORM)])
def test_block_refuses_a_tree(laws: tuple[np.ndarray, ...] | None) -> None:
    with pytest.raises(BadDraft, match="tree"):
        verify("block", pair(laws=laws), np.zeros((3, 4), np.float32), fresh())


def test_block_takes_back_what_it_supposed_when_a_row_is_broken() -> None:
    sequence = fresh()
    rows = np.zeros((3, 4), np.float32)
    rows[2] = np.nan
    with pytest.raises(BadLogits):
        verify("block", Draft.chain([1, 2], source="test"), rows, sequence)
    assert sequence.history.output_length == 0 and sequence.output == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_may_be_a_function_or_a_sequence(kind: str) -> None:
    target = MarkovTarget.fixed([0.1, 0.2, 0.3, 0.4])
    draft = Draft.chain([3, 3], source="test")
    as_array = verify(kind, draft, np.stack([target.row([])] * 3), fresh(0.0))
    as_list = verify(kind, draft, [target.row([])] * 3, fresh(0.0))
    as_function = verify(Verification(kind), draft, lambda node: target.row([]), fresh(0.0))
    assert as_array == as_list == as_function == Verdict((0, 1), 3)


def test_siblings_may_share_the_first_law_or_carry_their_own() -> None:
    law = np.array([0.4, 0.3, 0.2, 0.1])
    without_first = np.array([0.4, 0.0, 0.2, 0.1]) / 0.7
    target = MarkovTarget.random(seed=1, vocab=4)
    for seed in range(50):
        params = SamplingParams(max_tokens=9, temperature=1.0, seed=seed)
        verdicts = [
            verify(
                "rejection",
                pair(laws=(law, second)),
                lambda node: target.row([node + 1]),
                WorldContinuation([0], vocab=4, params=params),
            )
            for second in (law, without_first)
        ]
        assert verdicts[0] == verdicts[1]

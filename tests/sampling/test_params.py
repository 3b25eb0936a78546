"""Every parameter's range, and the wording of refusals."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
from typing import Any

import pytest

from pilotfish.errors import BadRequest
from pilotfish.sampling import SamplingParams

GOOD: list[dict[str, Any]] = [
    {},
    {"max_tokens": 0},
    {"max_tokens": 5, "min_tokens": 5},
    {"temperature": 0},
    {"temperature": 2},
    {"temperature": 1e-40},
    {"temperature": 1e300},
    {"top_k": 1},
    {"top_k": 10**9},
    {"top_p": 1},
    {"top_p": 1e-12},
    {"min_p": 0},
    {"min_p": 1},
    {"repetition_penalty": 0.5},
    {"presence_penalty": -2},
    {"frequency_penalty": 2},
    {"logit_bias": {0: -100, 7: 100.0}},
    {"banned_ids": [3, 3, 4]},
    {"stop": "end"},
    {"stop": ["a", "b"]},
    {"stop": tuple("abcdefghijklmnop")},
    {"stop_ids": {2}},
    {"ignore_eos": True},
    {"logprobs": 0},
    {"logprobs": 20, "logprobs_mode": "processed"},
    {"seed": 0},
    {"seed": 2**64 - 1},
    {"n": 1},
    {"n": 128},
]

BAD: list[dict[str, Any]] = [
    *({"max_tokens": value} for value in (-1, 1.0, True, "5", None)),
    *({"min_tokens": value} for value in (-1, 257, False, 0.0)),
    *({"temperature": value} for value in (-0.1, math.nan, math.inf, "1", True, None)),
    *({"top_k": value} for value in (-1, 1.5, True)),
    *({"top_p": value} for value in (0, 0.0, -0.1, 1.1, math.nan, True)),
    *({"min_p": value} for value in (-0.1, 1.1, math.nan, False)),
    *({"repetition_penalty": value} for value in (0, -1, math.inf, math.nan, True, 1e-9, 1e9)),
    *({"presence_penalty": value} for value in (-2.1, 2.1, math.nan, True)),
    *({"frequency_penalty": value} for value in (-2.1, 2.1, math.inf, "0")),
    *(
        {"logit_bias": value}
        for value in ({-1: 0.0}, {True: 1.0}, {"1": 1.0}, {1: math.nan}, {1: 101}, {1: True}, [1])
    ),
    *({"banned_ids": value} for value in ([-1], [True], [1.0], "12", 3, None)),
    *({"stop": value} for value in ("", ["a", ""], [1], ["x"] * 17, 5, None)),
    *({"stop_ids": value} for value in ([-2], ["a"], 2)),
    *({"ignore_eos": value} for value in (1, None, "yes")),
    *({"logprobs": value} for value in (-1, 21, True, 1.0)),
    *({"logprobs_mode": value} for value in ("both", None, 3)),
    *({"seed": value} for value in (-1, 2**64, 1.0, True, "7")),
    *({"n": value} for value in (0, 129, True, 1.0)),
]


@pytest.mark.parametrize("given", GOOD, ids=str)
def test_what_is_in_range_is_taken(given: dict[str, Any]) -> None:
    params = SamplingParams(**given)
    assert SamplingParams.from_mapping(given) == params
    assert pickle.loads(pickle.dumps(params)) == params
    assert copy.deepcopy(params) == params
    assert hash(params) == hash(SamplingParams(**given))


@pytest.mark.parametrize("given", BAD, ids=str)
def test_what_is_not_is_refused_by_name_value_and_range(given: dict[str, Any]) -> None:
    with pytest.raises(BadRequest) as refusal:
        SamplingParams(**given)
    ((name, value),) = given.items()
    assert name in str(refusal.value)
    assert repr(value) in str(refusal.value) or name == "logit_bias"
    assert "allowed" in str(refusal.value)


def test_every_field_has_a_refusal_tested() -> None:
    tested = {name for given in BAD for name in given}
    assert tested == {entry.name for entry in dataclasses.fields(SamplingParams)}


@pytest.mark.parametrize(
    ("typo", "meant"), [("top_pp", "top_p"), ("maxtokens", "max_tokens"), ("Temperature", "temperature")]
)
def test_unknown_names_are_refused_with_the_nearest(typo: str, meant: str) -> None:
    with pytest.raises(BadRequest, match=f"{typo}.*did you mean '{meant}'"):
        SamplingParams.from_mapping({typo: 1})


def test_a_bare_stop_is_one_string_and_collections_are_frozen() -> None:
    bias = {4: 1.0}
    params = SamplingParams(stop="end", banned_ids=[5, 4], logit_bias=bias)  # type: ignore[arg-type]
    bias[5] = 2.0
    assert params.stop == ("end",)
    assert params.banned_ids == frozenset({4, 5})
    assert params.logit_bias == {4: 1.0}


@pytest.mark.parametrize("given", [{"logit_bias": {9: 1.0}}, {"banned_ids": [9]}, {"stop_ids": [9]}], ids=str)
def test_ids_outside_the_vocabulary_are_refused(given: dict[str, Any]) -> None:
    params = SamplingParams(**given)
    params.check_vocab(10)
    with pytest.raises(BadRequest, match=f"{next(iter(given))}.*9.*below"):
        params.check_vocab(9)

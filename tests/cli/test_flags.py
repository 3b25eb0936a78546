"""Flags become options; everything wrong is named in one line before a model is loaded."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields

import pytest

from pilotfish.cli.flags import (
    TABLES,
    BadFlag,
    Parser,
    add_model_flags,
    add_sampling_flags,
    add_speculation_flags,
    flag_name,
    model_options,
    sampling_params,
    speculation_options,
)
from pilotfish.llm import SpeculationOptions
from pilotfish.model.load import ModelOptions
from pilotfish.sampling import SamplingParams

DESIGN = [
    "--target",
    "--draft",
    "--draft-length",
    "--verification",
    "--exactness",
    "--weights",
    "--activations",
    "--threads",
    "--cache-tokens",
    "--max-new-tokens",
    "--min-new-tokens",
    "--temperature",
    "--top-k",
    "--top-p",
    "--min-p",
    "--repetition-penalty",
    "--presence-penalty",
    "--frequency-penalty",
    "--logit-bias",
    "--stop",
    "--ignore-eos",
    "--logprobs",
    "--seed",
    "--n",
]
# Fields that the command line does not offer: set in Python, or by whoever serves many requests.
NOT_FLAGS = {"max_sequences", "prefill_chunk", "banned_ids", "stop_ids", "logprobs_mode"}


def parse(*argv: str) -> Namespace:
    parser = Parser("generate", "")
    add_model_flags(parser)
    add_speculation_flags(parser)
    add_sampling_flags(parser)
    return parser.parse_args(argv)


def test_the_flags_are_those_of_the_design_and_every_field_has_one() -> None:
    offered = [name for table in TABLES.values() for name in table]
    assert sorted(map(flag_name, offered)) == sorted(DESIGN)
    every = {field.name for options in TABLES for field in fields(options)}
    assert every - set(offered) == NOT_FLAGS


def test_no_flags_are_the_defaults() -> None:
    args = parse()
    assert model_options(args) == ModelOptions()
    assert speculation_options(args) == SpeculationOptions()
    assert sampling_params(args) == SamplingParams()
    assert sampling_params(args, max_tokens=64) == SamplingParams(max_tokens=64)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--target", "x.gguf", "--threads", "2"], ModelOptions(target="x.gguf", threads=2)),
        (["--exactness", "numeric", "--weights", "f32"], ModelOptions(exactness="numeric", weights="f32")),
        (["--activations=f32", "--cache-tokens=4096"], ModelOptions(activations="f32", cache_tokens=4096)),
    ],
)
def test_model_flags(argv: list[str], expected: ModelOptions) -> None:
    assert model_options(parse(*argv)) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--draft", "ngram+recycle"], SpeculationOptions(draft="ngram+recycle")),
        (["--draft-length", "auto"], SpeculationOptions()),
        (["--draft-length", "3"], SpeculationOptions(draft_length=3)),
        (["--verification", "block"], SpeculationOptions(verification="block")),
    ],
)
def test_speculation_flags(argv: list[str], expected: SpeculationOptions) -> None:
    assert speculation_options(parse(*argv)) == expected


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--max-new-tokens", "9", "--min-new-tokens", "2"], SamplingParams(max_tokens=9, min_tokens=2)),
        (["--temperature", ".8", "--top-k=40"], SamplingParams(temperature=0.8, top_k=40)),
        (["--top-p", "0.9", "--min-p", "1e-2"], SamplingParams(top_p=0.9, min_p=0.01)),
        (["--presence-penalty", "-0.5"], SamplingParams(presence_penalty=-0.5)),
        (["--frequency-penalty", "1", "--n", "3"], SamplingParams(frequency_penalty=1, n=3)),
        (["--repetition-penalty", "1.1", "--seed", "7"], SamplingParams(repetition_penalty=1.1, seed=7)),
        (["--logit-bias", "3=-5", "--logit-bias", "4=2.5"], SamplingParams(logit_bias={3: -5, 4: 2.5})),
        (["--stop", "END", "--stop", r"a\nb\\n\x"], SamplingParams(stop=("END", "a\nb\\n\\x"))),
        (["--ignore-eos", "--logprobs", "0"], SamplingParams(ignore_eos=True, logprobs=0)),
    ],
)
def test_sampling_flags(argv: list[str], expected: SamplingParams) -> None:
    found = sampling_params(parse(*argv))
    assert found == expected
    assert found.logit_bias == expected.logit_bias


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--temprature", "1"], "unknown flag '--temprature'; did you mean '--temperature'?"),
        (["--temp", "1"], "did you mean '--temperature'?"),
        (["--max-tokens=1"], "did you mean '--max-new-tokens'?"),
        (["--top_p", "1"], "did you mean '--top-p'?"),
        (["hello"], "unexpected 'hello'; put several words in quotes"),
        (["--seed"], "--seed needs a value; where it begins with a dash write --seed=VALUE"),
        (["--seed", "x"], "--seed needs a whole number, found 'x'"),
        (["--seed", "-1"], "--seed = -1 cannot be served"),
        (["--top-p", "many"], "--top-p needs a number, found 'many'"),
        (["--top-p", "0"], "--top-p = 0.0 cannot be served; allowed: in (0, 1]"),
        (["--temperature", "-1"], "--temperature = -1.0 cannot be served"),
        (["--temperature", "nan"], "--temperature = nan cannot be served"),
        (["--max-new-tokens", "-1"], "--max-new-tokens = -1 cannot be served"),
        (["--min-new-tokens", "9", "--max-new-tokens", "3"], "at most --max-new-tokens, which is 3"),
        (["--logit-bias", "5"], "--logit-bias needs ID=VALUE, as in 42=-5, found '5'"),
        (["--logit-bias", "5=x"], "--logit-bias needs ID=VALUE"),
        (["--logit-bias", "5=1", "--logit-bias", "5=2"], "--logit-bias gives token 5 two values, 1 and 2"),
        (["--logit-bias", "5=1000"], "--logit-bias = 1000.0 cannot be served"),
        (["--stop", ""], "--stop = [''] cannot be served"),
        (["--n", "0"], "--n = 0 cannot be served"),
        (["--logprobs", "21"], "--logprobs = 21 cannot be served"),
        (["--draft-length", "long"], "--draft-length needs auto or a whole number, found 'long'"),
        (["--draft-length", "99"], "--draft-length must be 'auto' or 0 to"),
        (["--verification", "coupld"], "did you mean 'coupled'?"),
        (["--weights", "int9"], "--weights 'int9' is not known; did you mean 'int8'?"),
        (["--exactness", "exact"], "--exactness 'exact' is not known"),
        (["--activations", "f16"], "--activations 'f16' is not known"),
        (["--threads", "-2"], "--threads must be 0 or more, found -2"),
        (["--cache-tokens", "1"], "--cache-tokens must be at least 64, found 1"),
    ],
)
def test_what_is_wrong_is_named(argv: list[str], said: str) -> None:
    with pytest.raises(BadFlag) as refusal:
        args = parse(*argv)
        model_options(args)
        speculation_options(args)
        sampling_params(args)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_some_flags_only() -> None:
    parser = Parser("bench", "")
    add_sampling_flags(parser, only=("max_tokens", "ignore_eos"))
    assert sampling_params(parser.parse_args(["--max-new-tokens", "5"])).max_tokens == 5
    with pytest.raises(BadFlag, match="unknown flag '--seed'"):
        parser.parse_args(["--seed", "3"])

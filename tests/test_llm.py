"""The embedded model through the front door: the same text whatever drafts, replies that add up."""

from __future__ import annotations

import json
import warnings

import pytest

from pilotfish.errors import BadRequest
from pilotfish.llm import LLM, SpeculationOptions
from pilotfish.sampling import SamplingParams

PROMPTS = ["List three colours.", "Repeat: one two three one two three one two", "def add(a, b):"]
SETTINGS = {
    "greedy": SamplingParams(max_tokens=16),
    "sampled": SamplingParams(max_tokens=16, temperature=0.8, top_p=0.95, frequency_penalty=0.2, seed=7),
}


@pytest.fixture(scope="module")
def plain(embedded_llm: LLM) -> LLM:
    return embedded_llm.with_speculation(draft="none")


def test_bitwise_is_proven_here(embedded_llm: LLM) -> None:
    """Where the self-check cannot prove it, this test says so loudly and the rest runs as numeric."""
    proof = embedded_llm.target.proof
    assert proof.compared > 500
    if not proof.form.bitwise:
        warnings.warn(f"NOT bitwise on {embedded_llm.target.machine}: {proof}", stacklevel=1)
        pytest.skip(f"numeric on this machine: {proof}")
    assert embedded_llm.target.exactness == "bitwise"
    assert proof.form.min_tokens == 2 and proof.form.max_rows >= 48 and proof.differing == 0


@pytest.mark.parametrize("params", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("draft", ["ngram", "suffix", "recycle", "auto", "replay:0.6"])
def test_every_draft_gives_the_plain_tokens(
    embedded_llm: LLM, plain: LLM, plain_ids: dict[str, list[list[int]]], draft: str, params: SamplingParams
) -> None:
    if not embedded_llm.target.form.bitwise:
        pytest.skip("numeric on this machine; see test_bitwise_is_proven_here")
    name = next(name for name, setting in SETTINGS.items() if setting is params)
    drafting = embedded_llm.with_speculation(draft=draft, draft_length=5)
    for prompt, tokens in zip(PROMPTS, plain_ids[name], strict=True):
        drafting.record(drafting.prompt_ids(prompt), tokens)  # so that replay need not run them again
    together = drafting.generate_all(PROMPTS, params)
    assert [reply.token_ids for reply in together] == plain_ids[name]
    drafting.engine.check()
    pool = embedded_llm.target.pool
    assert pool.free == pool.total


@pytest.fixture(scope="module")
def plain_ids(plain: LLM) -> dict[str, list[list[int]]]:
    """Plain tokens of each prompt alone."""
    return {
        name: [plain.generate(prompt, params).token_ids for prompt in PROMPTS]
        for name, params in SETTINGS.items()
    }


def test_a_reply_adds_up(embedded_llm: LLM) -> None:
    params = SamplingParams(max_tokens=12, temperature=1.0, n=2, logprobs=2)
    reply = embedded_llm.generate(PROMPTS[0], params)
    assert len(reply.choices) == 2 and reply.text == reply.choices[0].text
    for choice in reply.choices:
        assert len(choice.token_ids) == len(choice.origins) == len(choice.logprobs) <= 12
        assert choice.finish_reason in ("stop", "length")
        assert choice.timing.added < choice.timing.first_token <= choice.timing.last_token
    assert reply.stats.emitted_tokens == sum(len(choice.token_ids) for choice in reply.choices)
    json.dumps([reply.choices[0].logprobs[0].top, reply.stats.as_dict()])
    seeded = SamplingParams(max_tokens=12, temperature=1.0, n=2, logprobs=2, seed=reply.seed)
    again = embedded_llm.generate(PROMPTS[0], seeded)
    if embedded_llm.target.form.bitwise:
        assert [choice.token_ids for choice in again.choices] == [c.token_ids for c in reply.choices]


def test_streams_add_up_and_may_interleave(embedded_llm: LLM) -> None:
    params = SamplingParams(max_tokens=10)
    expected = embedded_llm.generate(PROMPTS[0], params)
    first, second = embedded_llm.stream(PROMPTS[0], params), embedded_llm.stream(PROMPTS[1], params)
    events = [next(first)]
    other = [next(second)]
    between = embedded_llm.generate(PROMPTS[0], params)  # a whole request while two streams wait
    events.extend(first)
    other.extend(second)
    assert "".join(event.text for event in events) == between.text == expected.text
    assert [token for event in events for token in event.tokens] == expected.token_ids
    assert other[-1].finish_reason is not None and sum(len(event.tokens) for event in other) <= 10
    left_early = embedded_llm.stream(PROMPTS[0], params)
    next(left_early)
    left_early.close()
    pool = embedded_llm.target.pool
    assert not embedded_llm.engine.busy and pool.free == pool.total and pool.promised == 0


def test_one_bad_request_among_several_leaves_nothing_behind(embedded_llm: LLM) -> None:
    params = SamplingParams(max_tokens=2)
    good = embedded_llm.request(PROMPTS[0], params)
    with pytest.raises(BadRequest, match="empty"):
        embedded_llm.run([good, embedded_llm.request([], params)])
    assert not embedded_llm.engine.busy
    assert len(embedded_llm.run([good])[0].token_ids) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"draft": "sufix"}, "suffix"),
        ({"draft_length": 16}, "0 to 15"),
        ({"draft_length": "long"}, "auto"),
        ({"verification": "cupled"}, "coupled"),
        ({"max_sequences": 0}, "max_sequences"),
        ({"cache_tokens": 8}, "cache_tokens"),
        ({"exactness": "bitwize"}, "bitwise"),
        ({"weights": "int9"}, "int8"),
    ],
)
def test_bad_options_are_named_before_anything_loads(options: dict[str, object], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        LLM("no/such/model", **options)


def test_options_that_do_not_exist() -> None:
    with pytest.raises(TypeError, match="spekulation"):
        LLM("no/such/model", spekulation=1)
    assert SpeculationOptions().draft == "auto"

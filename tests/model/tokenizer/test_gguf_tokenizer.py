"""gguf_tokenizer: the rules that are known, and refusal of everything else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer import Tokenizer, load_tokenizer
from pilotfish.model.weights import Checkpoint, open_checkpoint
from tests.fixtures.tiny_gguf import HIDDEN, TOKENS, write_gguf


def load(path: Path, metadata: dict[str, Any], rows: int | None = None) -> Tokenizer:
    tensors = {} if rows is None else {"token_embd.weight": np.zeros((rows, HIDDEN), np.float32)}
    return load_tokenizer(open_checkpoint(write_gguf(path / "t.gguf", metadata=metadata, tensors=tensors)))


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.decode([token]) for token in tokenizer.encode(text)]


def test_smollm_cuts_digits_and_what_is_before_them(embedded: Checkpoint) -> None:
    tokenizer = load_tokenizer(embedded)
    assert pieces(tokenizer, "in 2024") == ["in", " ", "2", "0", "2", "4"]
    # A digit ends the word before it, so both blanks stay together; GPT-2's rule would part them.
    assert pieces(tokenizer, "a  1") == ["a", "  ", "1"]


def test_rules_differ_where_they_should(tmp_path: Path) -> None:
    merges = {"tokenizer.ggml.merges": ["1 2", "12 3", "123 4"]}
    merges["tokenizer.ggml.tokens"] = [*TOKENS[:-5], "12", "123", "1234", "xx", "yy"]
    found = {
        rule: pieces(load(tmp_path, {**merges, "tokenizer.ggml.pre": rule}), "1234")
        for rule in ("smollm", "gpt-2", "qwen2", "llama-bpe")
    }
    assert found["gpt-2"] == ["1234"] and found["llama-bpe"] == ["123", "4"]
    assert found["smollm"] == found["qwen2"] == ["1", "2", "3", "4"]


def test_names_for_the_same_rule(tmp_path: Path) -> None:
    text = "HELLOworld 1234 it's a//b\n\n"
    for name, other in (("llama3", "llama-bpe"), ("smaug-bpe", "llama-v3"), ("deepseek-r1-qwen", "qwen2")):
        one, two = (load(tmp_path, {"tokenizer.ggml.pre": rule}) for rule in (name, other))
        assert one.encode(text) == two.encode(text)
    assert not load(tmp_path, {"tokenizer.ggml.pre": "smaug-bpe"}).adds_bos
    assert load(tmp_path, {"tokenizer.ggml.pre": "tekken"}).adds_bos


def test_tekken_cuts_at_capitals(tmp_path: Path) -> None:
    merges = {"tokenizer.ggml.merges": ["o W", "B a", "a B", "1 2"], "tokenizer.ggml.pre": "tekken"}
    merges["tokenizer.ggml.tokens"] = [*TOKENS[:-5], "oW", "Ba", "aB", "12", "yy"]
    # A small letter and the capital after it belong to two words, a digit is a word of its own.
    assert pieces(load(tmp_path, merges), "oWBaB12") == ["o", "W", "Ba", "B", "1", "2"]


def test_no_merge_makes_a_control_token(tmp_path: Path) -> None:
    tokens = [*TOKENS[:-2], "<|im_", "end|>"]
    fields = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": ["<|im_ end|>"]}
    assert 2 not in load(tmp_path, fields).encode("<|im_end|>")


def test_qwen2_composes_characters(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, {"tokenizer.ggml.pre": "qwen2"})
    assert tokenizer.decode(tokenizer.encode("e\u0301")) == "\u00e9"


def test_llama_begins_with_bos(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, {"tokenizer.ggml.pre": "llama-bpe"})
    assert tokenizer.adds_bos
    assert (
        tokenizer.encode_with_control("hello") == tokenizer.prompt("hello") == [1, *tokenizer.encode("hello")]
    )
    assert tokenizer.chat([{"role": "user", "content": "hello"}]).count(1) == 2
    asked = load(tmp_path, {"tokenizer.ggml.add_bos_token": True})
    assert asked.prompt("hello")[0] == 1


def test_words_of_the_user_kind_are_no_control_tokens(tmp_path: Path) -> None:
    kinds = [3, 3, 3, *[1] * (len(TOKENS) - 4), 4]
    tokens = [*TOKENS[:-1], "<think>"]
    tokenizer = load(
        tmp_path,
        {
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": kinds,
            "tokenizer.ggml.merges": ["h e"],
        },
    )
    think = len(tokens) - 1
    assert tokenizer.encode("a<think>b")[1] == think and not tokenizer.is_control(think)
    assert tokenizer.decode([think]) == "<think>"


def test_a_model_without_template_says_so(tmp_path: Path) -> None:
    tokenizer = load(tmp_path, {"tokenizer.chat_template": None})
    assert not tokenizer.has_chat_template
    with pytest.raises(ValueError, match="no chat template"):
        tokenizer.chat([{"role": "user", "content": "hi"}])


def test_ids_that_the_embedding_lacks(tmp_path: Path) -> None:
    with pytest.raises(BadTokenizer, match=rf"up to {len(TOKENS) - 1}.*only 100 rows"):
        load(tmp_path, {}, rows=100)
    assert load(tmp_path, {}, rows=300).vocab_size == len(TOKENS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tokenizer.ggml.model": "t5"}, r"kind 't5'.*gpt2.*llama"),
        ({"tokenizer.ggml.model": None}, "'tokenizer.ggml.model' is missing"),
        ({"tokenizer.ggml.pre": "viking"}, "pre is viking, known are smollm, gpt-2, qwen2"),
        ({"tokenizer.ggml.pre": "default"}, "pre is default, known are"),
        ({"tokenizer.ggml.pre": None}, "pre is absent, known are"),
        ({"tokenizer.ggml.tokens": None}, "'tokenizer.ggml.tokens' is missing"),
        ({"tokenizer.ggml.tokens": [1, 2]}, "a token is no text"),
        ({"tokenizer.ggml.tokens": ["a"] * len(TOKENS)}, "'a' is there twice"),
        ({"tokenizer.ggml.token_type": [1, 2]}, "types"),
        ({"tokenizer.ggml.merges": None}, "'tokenizer.ggml.merges' is missing"),
        ({"tokenizer.ggml.merges": ["h zz"]}, "merge 'h zz' does not fit"),
        ({"tokenizer.ggml.merges": ["he"]}, "merge 'he' does not fit"),
        ({"tokenizer.ggml.add_bos_token": "yes"}, "expected true or false"),
        ({"tokenizer.chat_template": "{% if %}"}, "no valid Jinja"),
    ],
)
def test_damage_is_named(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(BadTokenizer, match=named):
        load(tmp_path, change)

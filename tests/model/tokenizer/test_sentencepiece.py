"""SentencePiece vocabularies: from a GGUF and from a folder, any text there and back."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer import TextStream, Tokenizer, load_tokenizer
from pilotfish.model.weights import open_checkpoint
from tests.fixtures.tiny_gguf import write_gguf
from tests.fixtures.tiny_sentencepiece import (
    CONTROL,
    KINDS,
    SCORES,
    TOKENS,
    embedding,
    metadata,
    rules,
    write_folder,
)

ID = {token: number for number, token in enumerate(TOKENS)}
# ▁ is how a space is written, so that a text's own ▁ comes back as one.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁"), max_size=40)
PIECES = st.lists(
    st.one_of(TEXT, st.sampled_from([*CONTROL, "<tu", "rn>", "<0x0A>", "hello", " world", " ", "  ", "\n\n"]))
).map("".join)


def from_gguf(path: Path, **changes: object) -> Tokenizer:
    made = write_gguf(path / "t.gguf", metadata=metadata(**changes), tensors=embedding())
    return load_tokenizer(open_checkpoint(made))


def from_folder(path: Path, found: dict[str, Any]) -> Tokenizer:
    return load_tokenizer(open_checkpoint(write_folder(path / "folder", found)))


@pytest.fixture(scope="module", params=["gguf", "gguf never", "prepend", "first", "never"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("model")
    if "gguf" in request.param:
        return from_gguf(path, add_space_prefix=request.param == "gguf")
    return from_folder(path, rules(begins=request.param))


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return from_gguf(tmp_path_factory.mktemp("model"))


def pieces(tokenizer: Tokenizer, text: str) -> list[str]:
    return [TOKENS[token] for token in tokenizer.encode(text)]


@settings(max_examples=200, deadline=None)
@given(text=PIECES)
def test_any_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    first = tokenizer._inner is not tokenizer._literal
    # Where every part gets a space, the part after a user-defined token does too and keeps it.
    assume(first or not tokenizer.strips or not re.search("<b>|\n\n", text))
    # "first" puts no space before a text that begins with one, yet the decoder strips it.
    assert tokenizer.decode(tokenizer.encode(text)) == (text.removeprefix(" ") if first else text)


def test_the_part_after_a_user_defined_token_gets_a_space_too(gguf: Tokenizer) -> None:
    assert gguf.decode(gguf.encode("a<b>b")) == "a<b> b"


@settings(max_examples=200, deadline=None)
@given(text=PIECES)
def test_user_text_never_becomes_control(tokenizer: Tokenizer, text: str) -> None:
    assert not any(map(tokenizer.is_control, tokenizer.encode(text)))


@settings(max_examples=200, deadline=None)
@given(ids=st.lists(st.integers(0, len(TOKENS) - 1), max_size=30), skip=st.booleans(), more=st.booleans())
def test_pieces_add_up(tokenizer: Tokenizer, ids: list[int], skip: bool, more: bool) -> None:
    stream = TextStream(tokenizer, skip_control=skip, continues=more)
    text = "".join(map(stream.push, ids)) + stream.finish()
    assert text == tokenizer.decode(ids, skip, continues=more)


@settings(max_examples=100, deadline=None)
@given(before=PIECES, after=st.lists(st.integers(4, len(TOKENS) - 1), max_size=9))
def test_what_continues_a_text_adds_to_it(tokenizer: Tokenizer, before: str, after: list[int]) -> None:
    ids = tokenizer.encode("x" + before)
    stream = TextStream(tokenizer, continues=True)
    text = "".join(map(stream.push, after)) + stream.finish()
    assert tokenizer.decode([*ids, *after]) == tokenizer.decode(ids) + text


@settings(max_examples=150, deadline=None)
@given(contents=st.lists(PIECES, min_size=1, max_size=3))
def test_a_chat_is_its_parts(tokenizer: Tokenizer, contents: list[str]) -> None:
    """Between two control tokens stands what the text there encodes to, whatever it looks like."""
    inside = [token for text in contents for token in (3, *_inside(tokenizer, f"user\n{text}"), 2)]
    messages = [{"role": "user", "content": text} for text in contents]
    assert tokenizer.chat(messages) == [1, *inside, 3, *_inside(tokenizer, "model\n")]


def _inside(tokenizer: Tokenizer, text: str) -> list[int]:
    backend = tokenizer._inner
    return list(backend.encode(text, add_special_tokens=False).ids)


def test_the_best_token_is_joined_first(gguf: Tokenizer) -> None:
    assert pieces(gguf, "hello world") == ["▁hello", "▁world"]
    assert pieces(gguf, "helllo") == ["▁", "hell", "l", "o"]
    assert pieces(gguf, "a<b>b\n\n") == ["▁", "a", "<b>", "▁", "b", "\n\n"]
    assert pieces(gguf, "a  b   c") == ["▁", "a", "  ", "b", "   ", "c"]


def test_unknown_characters_become_bytes(gguf: Tokenizer) -> None:
    assert pieces(gguf, "ü") == ["▁", "<0xC3>", "<0xBC>"]
    assert b"".join(map(gguf.token_bytes, gguf.encode("ü"))) == " ü".encode()
    assert gguf.decode([ID["<0xC3>"], ID["a"]]) == "\ufffda"


def test_text_that_looks_like_control_or_a_byte_stays_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode(tokenizer.encode("<turn><0x0A>")) == "<turn><0x0A>"
    assert tokenizer.encode_with_control("<turn>")[:2] == [1, 3]


def test_the_space_before_a_text(tmp_path: Path, gguf: Tokenizer) -> None:
    assert pieces(gguf, "hello") == ["▁hello"] and gguf.encode("") == []
    assert gguf.decode([ID["▁hello"], ID["▁world"]]) == "hello world"
    assert gguf.decode([ID["▁world"]], continues=True) == " world"
    assert gguf.decode([1, ID["▁hello"]], skip_control=False) == "<s> hello"
    never = from_gguf(tmp_path, add_space_prefix=False)
    assert pieces(never, "hello") == ["hello"] and never.decode([ID["▁hello"]]) == " hello"


def test_only_the_first_part_gets_a_space(tmp_path: Path) -> None:
    tokenizer = from_folder(tmp_path, rules(begins="first"))
    assert pieces(tokenizer, "hello") == ["▁hello"]
    plain, marked = (tokenizer.chat([{"role": "hello", "content": text}]) for text in ("hello", "hello</s>"))
    assert plain[1:4] == marked[1:4] == [3, ID["hello"], ID["<0x0A>"]]


def test_what_goes_around_a_text(tmp_path: Path, gguf: Tokenizer) -> None:
    assert gguf.adds_bos and gguf.prompt("hello") == gguf.encode_with_control("hello") == [1, ID["▁hello"]]
    both = from_gguf(tmp_path, add_eos_token=True)
    assert both.encode_with_control("hello") == [1, ID["▁hello"], 2] and both.prompt("hello")[-1] != 2
    bare = from_gguf(tmp_path, add_bos_token=False)
    assert not bare.adds_bos and bare.encode_with_control("hello") == bare.prompt("hello") == [ID["▁hello"]]


def test_a_file_may_list_merges(tmp_path: Path) -> None:
    tokenizer = from_gguf(tmp_path, merges=["h e", "<tu rn>"], scores=None)
    assert pieces(tokenizer, "hello") == ["▁", "he", "l", "l", "o"]
    assert pieces(tokenizer, "<turn>")[-1] != "<turn>"


def test_a_character_without_bytes_is_unknown(tmp_path: Path) -> None:
    kinds = [1 if kind == 6 else kind for kind in KINDS]
    tokens = [f"byte{place}" if KINDS[place] == 6 else token for place, token in enumerate(TOKENS)]
    tokenizer = from_gguf(tmp_path, tokens=tokens, token_type=kinds)
    assert tokenizer.encode("aüü")[-1] == 0 and tokenizer.is_control(0)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"scores": None}, "'tokenizer.ggml.scores' is missing"),
        ({"scores": [1.0]}, rf"{len(TOKENS)} tokens have 1 scores"),
        ({"scores": ["x"] * len(SCORES)}, "one that is no number"),
        ({"tokens": [*TOKENS[:-1], "▁▁"]}, "a run of spaces is there twice"),
        ({"merges": ["h zz"]}, "merge 'h zz' does not fit"),
        ({"add_space_prefix": 3}, "expected true or false"),
    ],
)
def test_damage_is_named(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(BadTokenizer, match=named):
        from_gguf(tmp_path, **change)


def test_a_decoder_that_is_not_known(tmp_path: Path) -> None:
    found = rules()
    found["decoder"]["decoders"].append({"type": "Strip", "content": " ", "start": 2, "stop": 0})
    with pytest.raises(BadTokenizer, match="reads byte-level BPE and SentencePiece BPE"):
        from_folder(tmp_path, found)

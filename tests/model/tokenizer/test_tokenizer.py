"""Tokenizer: text comes back, user text never steers, chats become what the template says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.errors import BadRequest
from pilotfish.model.tokenizer import Tokenizer, load_tokenizer
from pilotfish.model.tokenizer.alphabet import ALPHABET, token_to_bytes
from pilotfish.model.tokenizer.control import MARKS
from pilotfish.model.weights import Checkpoint, open_checkpoint

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"
CONTROL = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>")
# SmolLM2 has no token for some bytes; characters below U+0020 and above U+3FFFF need them.
TEXT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x3FFFF, exclude_categories=["Cs"]))
PIECES = st.lists(
    st.one_of(TEXT, st.sampled_from([*CONTROL, "<|im_", "end|>", "<|", "\n", "  "])), max_size=6
)


@pytest.fixture(scope="session")
def tokenizer(embedded: Checkpoint) -> Tokenizer:
    return load_tokenizer(embedded)


@pytest.fixture(scope="session")
def tiny() -> Tokenizer:
    return load_tokenizer(open_checkpoint(TINY))


def test_the_alphabet_covers_all_bytes() -> None:
    assert len(ALPHABET) == 256
    assert {token_to_bytes(symbol) for symbol in ALPHABET} == {bytes([byte]) for byte in range(256)}
    assert token_to_bytes("Ġthe") == b" the"


def test_what_the_embedded_model_declares(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 49152
    assert tokenizer.eos_ids == {2} and tokenizer.bos_id == 1 and not tokenizer.adds_bos
    assert [token for token in range(49152) if tokenizer.is_control(token)] == list(range(17))
    assert tokenizer.prompt("Hello") == tokenizer.encode("Hello")


@settings(max_examples=200, deadline=None)
@given(text=TEXT)
def test_text_comes_back(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert b"".join(map(tokenizer.token_bytes, ids)) == text.encode()


@settings(max_examples=60, deadline=None)
@given(text=st.text())
def test_any_text_comes_back_from_a_full_alphabet(tiny: Tokenizer, text: str) -> None:
    assert tiny.decode(tiny.encode(text)) == text


@settings(max_examples=200, deadline=None)
@given(pieces=PIECES)
def test_user_text_never_becomes_control(tokenizer: Tokenizer, pieces: list[str]) -> None:
    text = "".join(pieces)
    assert not any(map(tokenizer.is_control, tokenizer.encode(text)))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_trusted_text_is_parsed(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_with_control("<|im_start|>user<|im_end|>") == [1, 4093, 2]
    assert tokenizer.decode([1, 4093, 2]) == "user"
    assert tokenizer.decode([1, 4093, 2], skip_control=False) == "<|im_start|>user<|im_end|>"
    assert tokenizer.token_bytes(1) == b"" and tokenizer.token_bytes(1, skip_control=False) == b"<|im_start|>"


def test_bytes_without_a_token_vanish(tokenizer: Tokenizer) -> None:
    kept = [byte for byte in range(32) if tokenizer.encode(chr(byte))]
    assert set(range(32)) - set(kept) == {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D}


def test_rows_without_a_token_are_empty(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_bytes(49152) == b"" and tokenizer.decode([49152, 4093]) == "user"
    with pytest.raises(BadRequest, match="-1 is no token id"):
        tokenizer.decode([-1])


@settings(max_examples=100, deadline=None)
@given(contents=st.lists(PIECES.map("".join), min_size=1, max_size=4))
def test_chat_contents_never_become_control(tokenizer: Tokenizer, contents: list[str]) -> None:
    messages = [{"role": "user", "content": content} for content in contents]
    ids = tokenizer.chat(messages)
    plain = tokenizer.chat([{"role": "user", "content": "x"} for _ in contents])
    control = [token for token in ids if tokenizer.is_control(token)]
    assert control == [token for token in plain if tokenizer.is_control(token)]
    rendered = "".join(f"<|im_start|>user\n{content}<|im_end|>\n" for content in contents)
    assert tokenizer.decode(ids, skip_control=False).endswith(rendered + "<|im_start|>assistant\n")


def test_roles_never_become_control(tokenizer: Tokenizer) -> None:
    ids = tokenizer.chat([{"role": "user<|im_end|>", "content": "x"}])
    plain = tokenizer.chat([{"role": "user", "content": "x"}])
    assert ids.count(2) == plain.count(2)


@settings(max_examples=200, deadline=None)
@given(pieces=PIECES)
def test_cut_encoding_equals_whole_encoding(tokenizer: Tokenizer, pieces: list[str]) -> None:
    """What `chat` does to a marked text equals what the backend does to an unmarked one."""
    text = "".join(pieces)
    ids: list[int] = []
    for ordinary, control in tokenizer._control.split(text):
        ids += tokenizer.encode(ordinary)
        ids += [] if control is None else tokenizer.encode_with_control(control)
    assert ids == tokenizer.encode_with_control(text)


def test_marks_in_a_text_survive(tokenizer: Tokenizer) -> None:
    content = f"{MARKS[0]}{MARKS[1]}<|im_end|>"
    assert content in tokenizer.decode(tokenizer.chat([{"role": "user", "content": content}]))
    with pytest.raises(BadRequest, match="all 32 Unicode noncharacters"):
        tokenizer.chat([{"role": "user", "content": "".join(MARKS)}])


def test_the_generation_prompt_is_optional(tokenizer: Tokenizer) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    without = tokenizer.chat(messages, add_generation_prompt=False)
    assert tokenizer.chat(messages) == without + tokenizer.encode_with_control("<|im_start|>assistant\n")
    assert tokenizer.has_chat_template


@pytest.mark.parametrize(
    ("messages", "named"),
    [
        ([], "at least one message"),
        ("hello", "at least one message"),
        (["hello"], "needs a role"),
        ([{"content": "x"}], "needs a role"),
        ([{"role": 1, "content": "x"}], "needs a role"),
        ([{"role": "user"}], "chat template"),
        ([{"role": "user", "content": None}], "chat template"),
        ([{"role": "user", "content": 5}], "chat template fails"),
        ([{"role": "user", "content": b"x"}], "may hold texts"),
        ([{"role": "user", "content": "\ud800"}], "no valid text"),
    ],
)
def test_messages_that_are_none(messages: object, named: str, tokenizer: Tokenizer) -> None:
    with pytest.raises(BadRequest, match=named):
        tokenizer.chat(messages)  # type: ignore[arg-type]


def test_text_that_is_none(tokenizer: Tokenizer) -> None:
    with pytest.raises(BadRequest, match="no valid text"):
        tokenizer.encode("\udfff")
    with pytest.raises(BadRequest, match="no valid text"):
        tokenizer.encode(None)  # type: ignore[arg-type]

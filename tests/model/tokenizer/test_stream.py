"""TextStream: pieces that add up, and never half a character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.model.tokenizer import TextStream, Tokenizer, load_tokenizer
from pilotfish.model.weights import Checkpoint


class Bytes(Tokenizer):
    """A vocabulary of the 256 bytes, and 256 as a control token."""

    def __init__(self) -> None:
        self._bytes = [bytes([byte]) for byte in range(256)] + [b"<end>"]
        self._control_ids = frozenset({256})
        self.strips = False


BYTES = Bytes()


@pytest.fixture(scope="session")
def tokenizer(embedded: Checkpoint) -> Tokenizer:
    return load_tokenizer(embedded)


def streamed(tokenizer: Tokenizer, ids: list[int], *, skip_control: bool = True) -> list[str]:
    stream = TextStream(tokenizer, skip_control=skip_control)
    return [*(stream.push(token) for token in ids), stream.finish()]


def test_a_character_comes_whole() -> None:
    assert streamed(BYTES, [*"aé🎉".encode()]) == ["a", "", "é", "", "", "", "🎉", ""]


def test_what_cannot_become_a_character_is_marked_at_once() -> None:
    assert streamed(BYTES, [0xFF, 0x61]) == ["\ufffd", "a", ""]
    assert streamed(BYTES, [0xE2, 0x82, 0x61]) == ["", "", "\ufffda", ""]
    assert streamed(BYTES, [0xF0, 0x9F]) == ["", "", "\ufffd"]


def test_control_tokens_do_not_break_a_character() -> None:
    assert streamed(BYTES, [0xC3, 256, 0xA9]) == ["", "", "é", ""]
    assert streamed(BYTES, [0x61, 256], skip_control=False) == ["a", "<end>", ""]


@settings(max_examples=300, deadline=None)
@given(ids=st.lists(st.integers(0, 256), max_size=40), skip=st.booleans())
def test_any_bytes_add_up(ids: list[int], skip: bool) -> None:
    assert "".join(streamed(BYTES, ids, skip_control=skip)) == BYTES.decode(ids, skip)


@settings(max_examples=150, deadline=None)
@given(ids=st.lists(st.integers(0, 49151), max_size=40))
def test_any_tokens_add_up(tokenizer: Tokenizer, ids: list[int]) -> None:
    assert "".join(streamed(tokenizer, ids)) == tokenizer.decode(ids)


@settings(max_examples=200, deadline=None)
@given(text=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x3FFFF, exclude_categories=["Cs"])))
def test_no_replacement_character_in_valid_text(tokenizer: Tokenizer, text: str) -> None:
    pieces = streamed(tokenizer, tokenizer.encode(text))
    assert "".join(pieces) == text
    assert sum(piece.count("\ufffd") for piece in pieces) == text.count("\ufffd")

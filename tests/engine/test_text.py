"""GrowingText: the earliest stop string wins, and nothing that could become one is shown early."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.engine.text import GrowingText


class Pieces:
    """A stream whose tokens index a list of pieces; `tail` comes at the end."""

    def __init__(self, pieces: list[str], tail: str = "") -> None:
        self.pieces, self.tail = pieces, tail

    def push(self, token: int) -> str:
        return self.pieces[token]

    def finish(self) -> str:
        return self.tail


def play(
    pieces: list[str], stop: tuple[str, ...], *, tail: str = "", early: int = 0
) -> tuple[GrowingText, list[str], int]:
    """The text, what was shown after each push, and how many pieces were read."""
    text = GrowingText(Pieces(pieces, tail), stop)
    shown: list[str] = []
    for token in range(len(pieces)):
        done = text.push(token, stops=token >= early)
        shown.append(text.take())
        if done:
            return text, shown, token + 1
    text.close()
    shown.append(text.take())
    return text, shown, len(pieces)


def splits(text: str, cuts: tuple[int, ...]) -> list[str]:
    return [text[a:b] for a, b in pairwise((0, *cuts, len(text)))]


@pytest.mark.parametrize("offset", range(8))
def test_a_stop_string_at_every_offset_in_every_split(offset: int) -> None:
    whole = "x" * offset + "STOP" + "y" * (7 - offset)
    for first in range(len(whole) + 1):
        for second in range(first, len(whole) + 1):
            pieces = splits(whole, (first, second))
            text, shown, read = play(pieces, ("STOP", "never"))
            assert text.value == "".join(shown) == "x" * offset
            assert len("".join(pieces[:read])) >= offset + 4 > len("".join(pieces[: read - 1]))


def test_the_earliest_of_several_stop_strings() -> None:
    assert play(["abcd"], ("cd", "bc"))[0].value == "a"
    assert play(["ab", "cd"], ("bcd", "c"))[0].value == "a"
    assert play(["a", "b", "c", "d"], ("bcd", "c"))[0].value == "ab"  # complete at the third piece already
    assert play(["aab"], ("ab",))[0].value == "a"
    assert play(["a", "a", "b"], ("ab",))[0].value == "a"  # the first a was not its beginning


def test_what_could_become_a_stop_string_waits() -> None:
    text = GrowingText(Pieces(["xS", "T", "z", "ST", "OP"]), ("STOP",))
    seen = []
    for token in range(5):
        finished = text.push(token)
        seen.append((text.take(), finished))
    assert seen == [("x", False), ("", False), ("STz", False), ("", False), ("", True)]
    assert text.value == "xSTz" and text.close() is False and text.take() == ""


def test_stops_that_come_too_early_are_text() -> None:
    assert play(["ab", "ab"], ("ab",), early=1)[0].value == "ab"
    assert play(["a", "b", "c"], ("ab",), early=1)[0].value == ""  # complete once stops count
    assert play(["ab", "c"], ("ab",), early=1)[0].value == "abc"
    # it lies in text that came too early but for its last character
    assert play(["xab", "c"], ("abc",), early=1)[0].value == "x"


def test_the_tail_counts() -> None:
    assert play(["a"], ("a\ufffd",), tail="\ufffd")[0].value == ""
    assert play(["a"], ("b",), tail="\ufffd")[1] == ["a", "\ufffd"]
    text = GrowingText(Pieces(["a"], "!"), ("!",))
    text.push(0)
    assert text.close(stops=False) is False and text.value == "a!" and text.close() is False


PIECE = st.text(alphabet="ab\n", max_size=4)


@given(
    st.lists(PIECE, max_size=10),
    st.lists(st.text(alphabet="ab\n", min_size=1, max_size=4), max_size=3),
    PIECE,
    st.integers(0, 11),
)
def test_takes_add_up_and_never_leak(pieces: list[str], stop: list[str], tail: str, early: int) -> None:
    text, shown, read = play(pieces, tuple(stop), tail=tail, early=early)
    assert "".join(shown) == text.value
    whole = "".join(pieces) + tail
    assert whole.startswith(text.value)
    if early == 0:
        assert not any(string in text.value for string in stop)
        assert text.value == whole or any(whole[len(text.value) :].startswith(string) for string in stop)
    partial = ""
    for piece, count in zip(shown, range(1, read + 1), strict=False):
        partial += piece  # shown no later than it must be: only a possible beginning is held back
        held = "".join(pieces[:count])[len(partial) :]
        if early == 0 and count < read:
            assert not held or any(string.startswith(held) for string in stop)

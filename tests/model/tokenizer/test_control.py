"""Control: strings that overlap, blanks that belong to a token."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken

from pilotfish.model.tokenizer.control import MARKS, Control

MARK = MARKS[0]


def control(*texts: str) -> Control:
    return Control.of([AddedToken(text, special=True) for text in texts])


def test_overlapping_strings_are_all_broken() -> None:
    found = control("ab", "bc", "abc")
    assert not found.holds(found.break_up("abcabcbc", MARK))


@given(st.text("abc<|>", max_size=30))
def test_breaking_up_only_adds_marks(text: str) -> None:
    found = control("ab", "bca", "<|a|>", "|a|")
    broken = found.break_up(text, MARK)
    assert not found.holds(broken)
    assert broken.replace(MARK, "") == text
    assert found.holds(text) or broken == text


@given(st.text("abc<|> ", max_size=30))
def test_cutting_loses_nothing(text: str) -> None:
    found = control("ab", "abc", "<|a|>")
    assert "".join(ordinary + (token or "") for ordinary, token in found.split(text)) == text


def test_the_longest_string_wins() -> None:
    assert [*control("<a>", "<a><b>").split("x<a><b>y")] == [("x", "<a><b>"), ("y", None)]


def test_blanks_that_a_token_takes() -> None:
    found = Control.of([AddedToken("<m>", lstrip=True, special=True), AddedToken("<r>", rstrip=True)])
    assert [*found.split("a  <m> b <r>  c")] == [("a", "<m>"), (" b ", "<r>"), ("c", None)]


def test_tokens_with_different_rules_share_a_vocabulary() -> None:
    tokens = [AddedToken("<abc>"), AddedToken("<m>", lstrip=True), AddedToken("<ab>"), AddedToken("<x>")]
    found = Control.of(tokens)
    assert [*found.split("a <m><abc> <ab>")] == [("a", "<m>"), ("", "<abc>"), (" ", "<ab>"), ("", None)]


def test_no_control_strings_at_all() -> None:
    assert [*control().split("abc")] == [("abc", None)] and not control().holds("abc")

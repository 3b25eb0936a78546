"""Widths, control characters, progress, and the block that is redrawn in place."""

from __future__ import annotations

import io
import re
import time

import pytest

from pilotfish.cli import terminal
from pilotfish.cli.screen import Column, Screen, columns, padded, wrap
from pilotfish.cli.terminal import Progress, cells, shown_safely

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def displayed(written: str) -> list[str]:
    """What a terminal shows after the writes of a Screen."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[\??\d*[A-Za-z]|[^\x1b]+", STYLE.sub("", written)):
        if part.startswith("\x1b["):
            if part.endswith("A"):
                row -= int(part[2:-1])
                assert row >= 0
            elif part == "\x1b[2K":
                lines[row] = ""
            elif part == "\x1b[J":
                del lines[row + 1 :]
            continue
        for piece in re.findall(r"\n|[^\n]+", part.replace("\r", "")):
            if piece == "\n":
                row += 1
                lines.extend([""] * (row + 1 - len(lines)))
            else:
                lines[row] = piece
    return lines


def test_widths() -> None:
    assert cells("abc") == 3
    assert cells("東京") == 4
    assert cells("e\u0301") == 1
    assert padded([("東", ""), ("x", "")], 5) == "東x  "


def test_control_characters_cannot_steer() -> None:
    assert shown_safely("a\x1b[2Jb\n\tc\x07") == "a\ufffd[2Jb\n\tc\ufffd"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("one two three", ["one ", "two ", "three"]),
        ("abcdefgh", ["abcde", "fgh"]),
        ("a\n\nb", ["a", "", "b"]),
        ("    deep", ["    d", "eep"]),
        ("a\n  b\n  c", ["a", "  b", "  c"]),
        ("東京都庁", ["東京", "都庁"]),
        ("abcde fgh", ["abcde", "fgh"]),
    ],
)
def test_wrap(text: str, lines: list[str]) -> None:
    wrapped = wrap([(text, "")], 5)
    assert [line.rstrip() for line in wrapped] == [line.rstrip() for line in lines]
    assert all(cells(line) == 5 for line in wrapped)


def test_columns_are_as_wide_as_they_say() -> None:
    sides = [
        Column("plain", [("some text that is long\nand\tmore", "")]),
        Column("fish", [("東京", "\x1b[32m")]),
    ]
    lines = [STYLE.sub("", line) for line in columns(sides, width=40)]
    assert len({cells(line) for line in lines}) == 1
    assert cells(lines[0]) < 40
    assert len(columns(sides, width=40, last=1)) == 3


def test_a_block_is_replaced_and_the_next_comes_below() -> None:
    stream = io.StringIO()
    with Screen(stream) as screen:
        screen.draw(["a1"])
        screen.draw(["a1", "a2", "a3"])
        screen.finish(["b1", "b2"])
        stream.write("between\n")
        screen.draw(["c1"])
        screen.draw(["c1", "c2"])
    assert displayed(stream.getvalue()) == ["b1", "b2", "between", "c1", "c2", ""]


def test_a_log_hears_only_of_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "_PATIENCE", 0.05)
    stream = io.StringIO()
    with Progress(stream) as progress:
        progress("quick")
        progress("slow")
        time.sleep(0.2)
        progress("warning: at once")
        progress("quick again")
    time.sleep(0.1)
    assert stream.getvalue() == "pilotfish: slow\npilotfish: warning: at once\n"

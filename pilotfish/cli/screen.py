"""Two columns of growing text on a terminal, redrawn in place.

    with Screen(sys.stdout) as screen:
        screen.draw([columns([Column("plain", pieces), Column("pilotfish", pieces)], width=80)])
        screen.finish(lines)        # the last state stays, whatever follows comes below it

Plain ANSI: cursor up, clear line. Wide and combining characters are counted roughly. Knows nothing
of races.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from types import TracebackType
from typing import TextIO

from pilotfish.cli.terminal import BOLD, DIM, cells, coloured, is_control

_FRAME = 0.04  # seconds between two redraws
_BETWEEN = " │ "
_NARROWEST = 24  # columns of text that are still readable


@dataclass(frozen=True)
class Column:
    """A heading, and text as (piece, style)."""

    heading: str
    pieces: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class _Cell:
    char: str
    style: str
    width: int


def fits(stream: TextIO) -> bool:
    """True where the terminal is wide enough for two columns."""
    return _column_width(size(stream)[0]) >= _NARROWEST and size(stream)[1] >= 10


def size(stream: TextIO) -> tuple[int, int]:
    """Columns and lines of the terminal."""
    found = shutil.get_terminal_size()
    return found.columns, found.lines


def columns(sides: Sequence[Column], *, width: int, last: int | None = None) -> list[str]:
    """Lines that show two texts beside each other; of each text only the `last` lines, if given."""
    each = _column_width(width)
    heads = [padded([(side.heading[:each], BOLD)], each) for side in sides]
    rule = coloured("─" * each, DIM)
    wrapped = [wrap(side.pieces, each) for side in sides]
    bodies = [lines if last is None else lines[-last:] for lines in wrapped]
    rows = zip_longest(*bodies, fillvalue=" " * each)
    return [
        _BETWEEN.join(heads),
        "─┼─".join([rule] * len(sides)),
        *(_BETWEEN.join(row) for row in rows),
    ]


def _column_width(width: int) -> int:
    # One column less than the terminal has: writing into the last one wraps on some.
    return (width - 1 - len(_BETWEEN)) // 2


def wrap(pieces: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Text as styled lines of exactly `width` columns, broken at spaces where there are any."""
    lines: list[list[_Cell]] = []
    line: list[_Cell] = []
    used, broken = 0, False  # columns of `line`; whether it continues the one before
    for cell in _cells(pieces):
        if cell.char == "\n":
            lines.append(line)
            line, used, broken = [], 0, False
            continue
        if used + cell.width > width:
            cut = _break(line)
            lines.append(line[:cut])
            line, broken = line[cut:], True
            used = sum(entry.width for entry in line)
        if not (broken and not line and cell.char == " "):  # the space at which a line was broken
            line.append(cell)
            used += cell.width
    return [padded([(cell.char, cell.style) for cell in entry], width) for entry in [*lines, line]]


def _break(line: Sequence[_Cell]) -> int:
    """Where to break a full line: after its last space, unless what is before it is blank."""
    for index in range(len(line) - 1, -1, -1):
        if line[index].char == " ":
            return index + 1 if any(cell.char != " " for cell in line[:index]) else len(line)
    return len(line)


def _cells(pieces: Iterable[tuple[str, str]]) -> Iterable[_Cell]:
    for text, style in pieces:
        for char in text.replace("\t", "    "):
            shown = "\ufffd" if is_control(char) else char
            yield _Cell(shown, style, cells(shown))


def padded(pieces: Iterable[tuple[str, str]], width: int) -> str:
    """Styled text filled up with spaces to a width."""
    chars = list(pieces)
    runs = ["".join(text for text, _ in run) for _, run in groupby(chars, key=lambda piece: piece[1])]
    styles = [style for style, _ in groupby(chars, key=lambda piece: piece[1])]
    styled = "".join(coloured(run, style) for run, style in zip(runs, styles, strict=True))
    return styled + " " * max(0, width - sum(map(cells, runs)))


class Screen:
    """A block of lines at the bottom of a terminal. `draw` as often as you like, `finish` to keep it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._height = 0
        self._drawn = 0.0

    @property
    def due(self) -> bool:
        """True when the last frame has been seen long enough."""
        return time.perf_counter() - self._drawn >= _FRAME

    def draw(self, lines: Sequence[str]) -> None:
        """Replace the block."""
        up = f"\x1b[{self._height}A" if self._height else ""
        self._stream.write(up + "\r" + "".join(f"\x1b[2K{line}\n" for line in lines) + "\x1b[J")
        self._stream.flush()
        self._height = len(lines)
        self._drawn = time.perf_counter()

    def finish(self, lines: Sequence[str]) -> None:
        """Replace the block a last time; the next one begins below it."""
        self.draw(lines)
        self._height = 0
        self._drawn = 0.0

    def __enter__(self) -> Screen:
        self._stream.write("\x1b[?25l")  # no cursor that jumps about
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.write("\x1b[?25h")
        self._stream.flush()

"""What a terminal shows: colours, widths, and progress that keeps out of the way.

    with Progress(sys.stderr) as progress:
        model = llm(args, progress)
    print(shown_safely(text), cells("東京"))      # control characters made visible; 4

Knows nothing of models or commands.
"""

from __future__ import annotations

import os
import threading
import unicodedata
from collections.abc import Mapping
from types import TracebackType
from typing import TextIO

RESET, BOLD, DIM = "\x1b[0m", "\x1b[1m", "\x1b[2m"
ORIGIN_COLOURS: Mapping[str, str] = {
    "suffix": "\x1b[32m",
    "recycle": "\x1b[36m",
    "ngram": "\x1b[34m",
    "replay": "\x1b[35m",
    "corrected": "\x1b[33m",
    "target": "",
}
_OTHER_SOURCE = "\x1b[31m"
_PATIENCE = 5.0  # seconds of silence before a log that is no terminal hears what takes so long


def is_terminal(stream: TextIO) -> bool:
    """True where cursor moves and colours can work."""
    return stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def has_colour(stream: TextIO) -> bool:
    """True on a terminal, unless NO_COLOR (no-color.org) is set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def coloured(text: str, style: str) -> str:
    """The text in a style."""
    return f"{style}{text}{RESET}" if style and text else text


def origin_colour(origin: str) -> str:
    """The style of tokens of this origin: a source's name, "corrected" or "target"."""
    return ORIGIN_COLOURS.get(origin.partition(":")[0], _OTHER_SOURCE)


def shown_safely(text: str) -> str:
    """The text without control characters that could steer a terminal; newlines and tabs stay."""
    return "".join("\ufffd" if is_control(char) else char for char in text)


def is_control(char: str) -> bool:
    """True for control characters other than newline and tab."""
    return unicodedata.category(char) == "Cc" and char not in "\n\t"


def cells(text: str) -> int:
    """Columns that a terminal needs for the text, roughly."""
    return sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Progress:
    """Call it with what takes long now. A terminal sees it at once, a log only if it does take long.

    Warnings are always written. Leave the `with` block when the work is done.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._timer: threading.Timer | None = None

    def __call__(self, message: str) -> None:
        self._cancel()
        if is_terminal(self._stream) or message.startswith("warning"):
            self._write(message)
            return
        self._timer = threading.Timer(_PATIENCE, self._write, [message])
        self._timer.daemon = True
        self._timer.start()

    def _write(self, message: str) -> None:
        print(f"pilotfish: {message}", file=self._stream, flush=True)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cancel()

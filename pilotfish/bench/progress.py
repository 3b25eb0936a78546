"""A progress line on stderr: what is done, what runs, how long it will still take.

    bar = Bar(sys.stderr)
    bar.show(0.25, "code-1, suffix")
    bar.close()

On a terminal one line is written over; elsewhere a line comes every few seconds. Knows nothing of
what is being done.
"""

from __future__ import annotations

import time
from typing import TextIO

_WIDTH = 24
_TERMINAL_S, _FILE_S = 0.1, 10.0  # at most so often


class Bar:
    """Call `show` as often as you like, and `close` at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._began = time.monotonic()
        self._shown = self._began if not self._terminal else 0.0
        self._length = 0

    def show(self, share: float, note: str) -> None:
        """`share` of the work, 0 to 1, is done; `note` is what runs now."""
        now = time.monotonic()
        if now - self._shown < (_TERMINAL_S if self._terminal else _FILE_S):
            return
        self._shown = now
        full = int(_WIDTH * share)
        left = f", {duration((now - self._began) * (1 - share) / share)} left" if share > 0 else ""
        line = f"[{'#' * full}{'.' * (_WIDTH - full)}] {share:4.0%}{left}  {note}"
        if self._terminal:
            line = line[:110]
            self._stream.write("\r" + line + " " * (self._length - len(line)))
            self._length = len(line)
        else:
            self._stream.write(line + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Make room for a line of output; the next `show` draws the bar again."""
        if self._terminal and self._length:
            self._stream.write("\r" + " " * self._length + "\r")
            self._stream.flush()
            self._length, self._shown = 0, 0.0

    def close(self) -> None:
        """No more will be shown."""
        self.clear()


def duration(seconds: float) -> str:
    """12 s, 3 min 20 s, 1 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""The text of one choice as it grows: complete characters only, cut at the earliest stop string.

    text = GrowingText(TextStream(tokenizer), stop=("\\n\\n",))
    text.push(token)           # True when a stop string is complete
    text.take()                # what may be shown now; the rest could still become a stop string

Knows nothing of ids that stop, of lengths or of sampling.
"""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """Turns ids into complete text; see `pilotfish.model.tokenizer.TextStream`."""

    def push(self, token: int) -> str: ...

    def finish(self) -> str: ...


class GrowingText:
    """One choice's text. `value` is all of it, `take` what has become safe to show since."""

    def __init__(self, stream: Stream, stop: tuple[str, ...]) -> None:
        self._stream = stream
        self._stop = stop
        self._longest = max(map(len, stop), default=0)
        self._shown = 0
        self._closed = False
        self.value = ""

    def push(self, token: int, *, stops: bool = True) -> bool:
        """Add a token's text. With `stops`, True when it completes a stop string: the text ends there."""
        return self._extend(self._stream.push(token), stops=stops)

    def close(self, *, stops: bool = True) -> bool:
        """No token follows: flush what was an incomplete character. True as in `push`."""
        if self._closed:
            return False
        found = self._extend(self._stream.finish(), stops=stops)
        self._closed = True
        return found

    def _extend(self, piece: str, *, stops: bool) -> bool:
        before = len(self.value)
        self.value += piece
        if not (stops and piece and self._stop):
            return False
        # A match must end inside this piece: what came before was searched, or was too early to count.
        begins = [self.value.find(string, max(0, before - len(string) + 1)) for string in self._stop]
        found = min((begin for begin in begins if begin >= 0), default=-1)
        if found < 0:
            return False
        self.value = self.value[:found]
        self._closed = True
        return True

    def take(self) -> str:
        """The text that has become safe since the last call."""
        end = len(self.value) if self._closed else len(self.value) - self._pending()
        piece = self.value[self._shown : end]
        self._shown = max(self._shown, end)
        return piece

    def _pending(self) -> int:
        """How many trailing characters could still be the beginning of a stop string."""
        for length in range(min(self._longest - 1, len(self.value)), 0, -1):
            tail = self.value[-length:]
            if any(string.startswith(tail) for string in self._stop):
                return length
        return 0

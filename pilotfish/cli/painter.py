"""Colours a choice's text by the origin of each token, as it grows.

    painter = Painter(tokenizer)
    for event in events:
        for piece, origin in painter.paint(event): ...
    print(legend(painter.seen))

The pieces of an event together are exactly `event.text`: what a stop string cuts off or holds
back is not in them, and a character that is spread over tokens has the origin of the last one.
Knows nothing of terminals beyond the names of styles.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from pilotfish.cli.terminal import coloured, origin_colour
from pilotfish.engine.request import Event
from pilotfish.model.tokenizer import TextStream, Tokenizer


class Painter:
    """One choice's text in pieces of one origin. `paint` every event in turn; `seen` counts tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._stream = TextStream(tokenizer, continues=True)
        self._waiting: deque[tuple[str, str]] = deque()  # text of tokens that no event has shown yet
        self._last = "target"
        self.seen: Counter[str] = Counter()

    def paint(self, event: Event) -> list[tuple[str, str]]:
        """The event's text as (piece, origin)."""
        for token, origin in zip(event.tokens, event.origins, strict=False):
            self._waiting.append((self._stream.push(token), origin))
            self._last = origin
            self.seen[origin] += 1
        if event.finish_reason is not None:
            self._waiting.append((self._stream.finish(), self._last))
        return self._release(len(event.text))

    def _release(self, length: int) -> list[tuple[str, str]]:
        pieces: list[tuple[str, str]] = []
        while length > 0 and self._waiting:
            text, origin = self._waiting.popleft()
            piece, rest = text[:length], text[length:]
            length -= len(piece)
            if rest:
                self._waiting.appendleft((rest, origin))
            if piece:
                pieces.append((piece, origin))
        return pieces


def legend(seen: Mapping[str, int]) -> str:
    """The origins that occurred, each in its colour with its number of tokens."""
    drafted = sorted(origin for origin in seen if origin not in ("corrected", "target"))
    order = [*drafted, *(origin for origin in ("corrected", "target") if origin in seen)]
    return "  ".join(coloured(f"{origin} {seen[origin]}", origin_colour(origin)) for origin in order)

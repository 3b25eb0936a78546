"""Control: the control tokens of a vocabulary, and how a user's text is kept from becoming one.

    control = Control.of([AddedToken("<|im_end|>", special=True)])
    marked = control.break_up("hi <|im_end|>", mark)    # "hi <" + mark + "|im_end|>"
    control.split("a<|im_end|>")                        # [("a", None), ("", "<|im_end|>")]

A mark is a Unicode noncharacter, set inside a control string of the user before a chat template
is rendered and dropped after the rendered text has been cut at its real control strings. Knows
nothing of templates or ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from tokenizers import AddedToken

# Code points that Unicode reserves for uses like this one; no text should hold them.
MARKS = tuple(map(chr, range(0xFDD0, 0xFDF0)))


@dataclass(frozen=True)
class Control:
    """The control strings of one vocabulary."""

    found: re.Pattern[str]
    cut: re.Pattern[str]

    @classmethod
    def of(cls, tokens: Iterable[AddedToken]) -> Control:
        """Built from the special tokens of a tokenizer, with their rules about blanks."""
        ordered = sorted(tokens, key=lambda token: -len(token.content))
        nothing = r"(?!)"
        return cls(
            # A token of one character cannot be broken up: it stays what the vocabulary makes of it.
            found=re.compile("|".join(re.escape(t.content) for t in ordered if t.content[1:]) or nothing),
            cut=re.compile("|".join(_rules(ordered)) or nothing),
        )

    def holds(self, text: str) -> bool:
        """True when some control string stands in the text."""
        return self.found.search(text) is not None

    def break_up(self, text: str, mark: str) -> str:
        """The text with a mark inside every control string."""
        # Repeated, because a broken string may overlap the next one.
        while self.holds(text):
            text = self.found.sub(lambda match: match.group()[0] + mark + match.group()[1:], text)
        return text

    def split(self, text: str) -> Iterator[tuple[str, str | None]]:
        """Cuts a text into (ordinary text, the control string after it or None)."""
        at = 0
        for match in self.cut.finditer(text):
            yield text[at : match.start()], match[match.lastindex or 0]
            at = match.end()
        yield text[at:], None


def _rules(tokens: Iterable[AddedToken]) -> Iterator[str]:
    """One pattern with one group for each run of tokens with the same rules: with a group for every
    token a vocabulary with thousands of them (Gemma) takes minutes to cut a page of text."""
    for (lstrip, rstrip, single), run in groupby(tokens, lambda t: (t.lstrip, t.rstrip, t.single_word)):
        word = "(" + "|".join(re.escape(token.content) for token in run) + ")"
        left, right = r"\s*" if lstrip else "", r"\s*" if rstrip else ""
        yield left + (rf"(?<!\w){word}(?!\w)" if single else word) + right

"""TextStream: tokens one by one -> text, never half a character.

    stream = TextStream(tokenizer)
    text = stream.push(17) + stream.push(4) + stream.finish()

All pieces together equal `tokenizer.decode` of all tokens. With `continues` the tokens follow a
prompt: a space that begins them is part of the text, as in `decode`. Knows nothing of stop strings.
"""

from __future__ import annotations

import codecs

from pilotfish.model.tokenizer.tokenizer import Tokenizer


class TextStream:
    """The text of one sequence while it grows. `push` each token, `finish` once at the end."""

    def __init__(self, tokenizer: Tokenizer, *, skip_control: bool = True, continues: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skip_control = skip_control
        self._strips = tokenizer.strips and not continues
        # It holds back the beginning of a character, and writes U+FFFD only for bytes that cannot
        # become one: exactly the text of decoding all bytes at once.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """The text that is certain now and was not before; often empty inside a character."""
        piece = self._tokenizer.token_bytes(token, self._skip_control)
        if piece and self._strips:
            piece, self._strips = piece.removeprefix(b" "), False
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """What was held back: U+FFFD for a character that never became whole, else nothing."""
        return self._decoder.decode(b"", final=True)

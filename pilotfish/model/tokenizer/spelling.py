"""Spelling: which bytes the entries of a vocabulary stand for. There are two ways to write them.

    BYTE_LEVEL.of_token("Ġthe")                     # b" the"
    Spelling.sentencepiece().of_token("▁the")       # b" the"
    Spelling.sentencepiece().of_token("<0x0A>")     # b"\\n"

Knows nothing of ids.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pilotfish.model.tokenizer.alphabet import token_to_bytes

SPACE = "\u2581"
_BYTE = re.compile("<0x([0-9A-Fa-f]{2})>")


@dataclass(frozen=True)
class Spelling:
    """How one vocabulary is written.

    of_token, of_added   the bytes of an entry; added tokens may be written in their own way
    strips               True when decoding takes away the space that encoding put before a text
    """

    of_token: Callable[[str], bytes]
    of_added: Callable[[str], bytes]
    strips: bool = False

    @classmethod
    def sentencepiece(cls, *, strips: bool = False) -> Spelling:
        """▁ is a space, <0x0A> the byte 10, all else is written as it reads."""
        return cls(of_token=piece_to_bytes, of_added=piece_to_bytes, strips=strips)


def piece_to_bytes(piece: str) -> bytes:
    """The bytes of an entry of a SentencePiece vocabulary."""
    if piece[:3] == "<0x" and (byte := _BYTE.fullmatch(piece)):
        return bytes.fromhex(byte[1])
    return piece.replace(SPACE, " ").encode("utf-8", "surrogatepass")


# Added tokens are stored as they read, all others in the byte-level alphabet.
BYTE_LEVEL = Spelling(of_token=token_to_bytes, of_added=str.encode)

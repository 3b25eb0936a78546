"""The byte-level alphabet of GPT-2: 256 printable characters that stand for the 256 bytes.

    token_to_bytes("Ġthe")      # b" the"

Knows nothing of vocabularies.
"""

from __future__ import annotations

_PRINTABLE = (*range(33, 127), *range(161, 173), *range(174, 256))
_OTHERS = tuple(byte for byte in range(256) if byte not in _PRINTABLE)

# The character that stands for a byte -> that byte, as the code point of latin-1.
_TO_BYTE = {byte: byte for byte in _PRINTABLE} | {256 + place: byte for place, byte in enumerate(_OTHERS)}

ALPHABET = frozenset(map(chr, _TO_BYTE))


def token_to_bytes(token: str) -> bytes:
    """The bytes a vocabulary entry stands for; one that is not in the alphabet stands for itself."""
    if ALPHABET.issuperset(token):
        return token.translate(_TO_BYTE).encode("latin-1")
    return token.encode("utf-8", "surrogatepass")

"""Vocabulary: what a GGUF says of its tokens, in the parts that a tokenizer is made of.

    vocabulary = Vocabulary(model=model, added=added_tokens(tokens, kinds), ...)
    vocabulary.backend().encode("Hello").ids

Knows nothing of chat templates or of what ids begin and end a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tokenizers import AddedToken, models
from tokenizers import Tokenizer as Backend
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import PreTokenizer

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer.spelling import Spelling
from pilotfish.model.weights.fields import Fields

PREFIX = "tokenizer.ggml."
# What tokenizer.ggml.token_type may say of a token.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


@dataclass(frozen=True)
class Vocabulary:
    """One vocabulary of a GGUF. `adds_bos` holds where the file does not say it."""

    model: models.BPE
    added: Sequence[AddedToken]
    normalizer: Normalizer | None
    pre_tokenizer: PreTokenizer | None
    spelling: Spelling
    adds_bos: bool

    def backend(self) -> Backend:
        """A tokenizer over this vocabulary; all of them share the model."""
        backend = Backend(self.model)
        if self.normalizer is not None:
            backend.normalizer = self.normalizer
        if self.pre_tokenizer is not None:
            backend.pre_tokenizer = self.pre_tokenizer
        backend.add_tokens(list(self.added))
        return backend


def added_tokens(tokens: Sequence[str], kinds: Sequence[int]) -> list[AddedToken]:
    """The control and the user-defined tokens, which are found whole in a text."""
    return [
        AddedToken(token, special=kind != USER_DEFINED, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in (UNKNOWN, CONTROL, USER_DEFINED)
    ]


def listed_merges(fields: Fields, tokens: Sequence[str], kinds: Sequence[int]) -> list[tuple[str, str]]:
    """The merges that a file lists, but for those that would make a control token or a byte of text
    that only looks like one. Raises BadTokenizer for a merge that makes no token of two."""
    kind_of = dict(zip(tokens, kinds, strict=True))
    merges: list[tuple[str, str]] = []
    for merge in map(str, fields.listing(PREFIX + "merges")):
        left, _, right = merge.partition(" ")
        if not {left, right, left + right} <= kind_of.keys():
            raise BadTokenizer(
                f"{fields.where}: the merge {merge!r} does not fit the vocabulary. Fetch the model again."
            )
        if kind_of[left + right] in (NORMAL, USER_DEFINED):
            merges.append((left, right))
    return merges

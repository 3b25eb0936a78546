"""sentencepiece: the vocabulary of a GGUF whose tokenizer is `llama`, SentencePiece BPE.

    sentencepiece(fields, tokens, kinds).backend().encode("Hello")

Such a file gives every token a score instead of listing merges: of all neighbours that make a token
together, the pair with the best token is joined first. A character without a token becomes its
bytes (<0x0A>). The ids are those of the model's tokenizer.json. Google's library and llama.cpp give
the same ones, but for more than 31 spaces in a row in Gemma. Knows nothing of chat templates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tokenizers import models, normalizers

from pilotfish.errors import BadTokenizer
from pilotfish.model.tokenizer.spelling import SPACE, Spelling
from pilotfish.model.tokenizer.vocabulary import (
    NORMAL,
    PREFIX,
    USER_DEFINED,
    Vocabulary,
    added_tokens,
    listed_merges,
)
from pilotfish.model.weights.fields import Fields


def sentencepiece(fields: Fields, tokens: Sequence[str], kinds: Sequence[int]) -> Vocabulary:
    """The vocabulary of a file. Raises BadTokenizer for scores that do not fit the tokens."""
    # Runs of spaces stand as they read in such a file (Gemma), but must join like any other piece.
    blank = [kind == USER_DEFINED and not token.strip(" ") for token, kind in zip(tokens, kinds, strict=True)]
    tokens = [token.replace(" ", SPACE) if run else token for token, run in zip(tokens, blank, strict=True)]
    kinds = [NORMAL if run else kind for kind, run in zip(kinds, blank, strict=True)]
    if len(set(tokens)) != len(tokens):
        raise BadTokenizer(f"{fields.where}: a run of spaces is there twice. Convert the model again.")
    if fields.has(PREFIX + "merges"):
        merges = listed_merges(fields, tokens, kinds)
    else:
        # As in listed_merges, text that only looks like a control token or a byte stays text.
        plain = [number for number, kind in enumerate(kinds) if kind == NORMAL]
        scores = _scores(fields, len(tokens))
        plain.sort(key=lambda number: (not blank[number], 0 if blank[number] else -scores[number]))
        merges = list(_merges([tokens[number] for number in plain]))
    unknown = fields.integer(PREFIX + "unknown_token_id", default=-1)
    prefixes = fields.boolean(PREFIX + "add_space_prefix", default=True)
    spaces = normalizers.Replace(" ", SPACE)
    return Vocabulary(
        added=added_tokens(tokens, kinds),
        model=models.BPE(
            {token: number for number, token in enumerate(tokens)},
            merges,
            unk_token=tokens[unknown] if 0 <= unknown < len(tokens) else None,
            fuse_unk=True,
            byte_fallback=True,
        ),
        normalizer=normalizers.Sequence([normalizers.Prepend(SPACE), spaces]) if prefixes else spaces,
        pre_tokenizer=None,
        spelling=Spelling.sentencepiece(strips=prefixes),
        adds_bos=True,
    )


def _merges(ordered: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Every way to join two of the tokens to a third, the best token first."""
    known = frozenset(ordered)
    for token in ordered:
        for cut in range(len(token) - 1, 0, -1):
            if (left := token[:cut]) in known and (right := token[cut:]) in known:
                yield left, right


def _scores(fields: Fields, count: int) -> list[float]:
    scores = fields.listing(PREFIX + "scores")
    if len(scores) != count or not all(isinstance(score, int | float) for score in scores):
        raise BadTokenizer(
            f"{fields.where}: {count} tokens have {len(scores)} scores, or one that is no number."
            " Fetch the model again."
        )
    return scores

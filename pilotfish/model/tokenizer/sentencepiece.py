"""sentencepiece: the vocabulary of a GGUF whose tokenizer is `llama`, SentencePiece BPE.

    sentencepiece(fields, tokens, kinds).backend().encode("Hello")

Such a file gives every token a score instead of listing merges: of all neighbours that make a token
together, the pair with the best token is joined first. A character without a token becomes its
bytes (<0x0A>). The ids are transformers'; Google's own library joins equal pairs from the left
where this joins those with the longer first half, and takes a run of more than 31 spaces in Gemma
as 31 and the rest. Knows nothing of chat templates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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
    tokens = [token.replace(" ", SPACE) if same else token for token, same in zip(tokens, blank, strict=True)]
    kinds = [NORMAL if same else kind for kind, same in zip(kinds, blank, strict=True)]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    # No merge may make a control token or a byte: text that only looks like one stays text.
    plain = {token: number for number, token in enumerate(tokens) if kinds[number] == NORMAL}
    if fields.has(PREFIX + "merges"):
        merges = [pair for pair in listed_merges(fields, tokens) if "".join(pair) in plain]
    else:
        scores = _scores(fields, len(tokens))
        first = [number for number, same in enumerate(blank) if same]
        rest = sorted((n for n in plain.values() if not blank[n]), key=lambda number: -scores[number])
        merges = list(_merges([tokens[number] for number in (*first, *rest)], plain))
    unknown = fields.integer(PREFIX + "unknown_token_id", default=-1)
    prefixes = fields.boolean(PREFIX + "add_space_prefix", default=True)
    spaces = normalizers.Replace(" ", SPACE)
    return Vocabulary(
        added=added_tokens(tokens, kinds),
        model=models.BPE(
            vocabulary,
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


def _merges(ordered: Iterable[str], plain: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Every way to join two tokens to one, the best token first."""
    known = set(plain)
    for token in ordered:
        for cut in range(len(token) - 1, 0, -1):
            if token[:cut] in known and token[cut:] in known:
                yield token[:cut], token[cut:]


def _scores(fields: Fields, count: int) -> list[float]:
    scores = fields.listing(PREFIX + "scores")
    if len(scores) != count or not all(isinstance(score, int | float) for score in scores):
        raise BadTokenizer(
            f"{fields.where}: {count} tokens have {len(scores)} scores, or one that is no number."
            " Fetch the model again."
        )
    return scores

"""gguf_tokenizer: the tokenizer inside a GGUF file.

    gguf_tokenizer(checkpoint).encode("Hello")

KINDS holds the two kinds of vocabulary that are known. Knows nothing of weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tokenizers import processors

from pilotfish.errors import BadModel, BadTokenizer
from pilotfish.model.tokenizer.byte_level import byte_level
from pilotfish.model.tokenizer.sentencepiece import sentencepiece
from pilotfish.model.tokenizer.template import ChatTemplate
from pilotfish.model.tokenizer.tokenizer import Tokenizer
from pilotfish.model.tokenizer.vocabulary import NORMAL, PREFIX, Vocabulary
from pilotfish.model.weights.checkpoint import Checkpoint
from pilotfish.model.weights.fields import Fields

KINDS: Mapping[str, Callable[[Fields, Sequence[str], Sequence[int]], Vocabulary]] = {
    "gpt2": byte_level,
    "llama": sentencepiece,
}
NAMED_IDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",
}


def gguf_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a GGUF. Raises BadTokenizer for what is missing, damaged or not supported."""
    try:
        return _build(Fields(checkpoint.metadata, where=str(checkpoint.path)), checkpoint)
    except BadTokenizer:
        raise
    except BadModel as problem:  # a field that is missing or of the wrong type
        raise BadTokenizer(str(problem)) from None


def _build(fields: Fields, checkpoint: Checkpoint) -> Tokenizer:
    build = _kind(fields)
    tokens = fields.listing(PREFIX + "tokens")
    kinds = fields.values.get(PREFIX + "token_type") or [NORMAL] * len(tokens)
    _check(fields, tokens, kinds)
    vocabulary = build(fields, tokens, kinds)
    bos = checkpoint.config.bos_id
    adds_bos = fields.boolean(PREFIX + "add_bos_token", default=vocabulary.adds_bos)
    names = {
        name: tokens[fields.integer(PREFIX + field)]
        for name, field in NAMED_IDS.items()
        if fields.has(PREFIX + field) and 0 <= fields.integer(PREFIX + field) < len(tokens)
    }
    # Two tokenizers over one vocabulary, because the setting that tells them apart is not per call.
    parsing, literal = vocabulary.backend(), vocabulary.backend()
    literal.encode_special_tokens = True
    adds_eos = fields.boolean(PREFIX + "add_eos_token", default=False)
    parsing.post_processor = _around(names if adds_bos else {}, names if adds_eos else {}, tokens)
    source = fields.text("tokenizer.chat_template", default="")
    template = ChatTemplate(source, names=names, where=fields.where) if source else None
    return Tokenizer(
        parsing=parsing,
        literal=literal,
        template=template,
        eos_ids=checkpoint.config.eos_ids,
        bos_id=bos,
        adds_bos=adds_bos,
        spelling=vocabulary.spelling,
    )


def _kind(fields: Fields) -> Callable[[Fields, Sequence[str], Sequence[int]], Vocabulary]:
    kind = fields.text(PREFIX + "model")
    if kind not in KINDS:
        raise BadTokenizer(
            f"{fields.where}: its tokenizer is of the kind {kind!r}; pilotfish reads 'gpt2' (byte-level BPE)"
            " and 'llama' (SentencePiece BPE). Choose another model."
        )
    return KINDS[kind]


def _around(
    before: Mapping[str, str], after: Mapping[str, str], tokens: Sequence[str]
) -> processors.TemplateProcessing:
    """Sets the bos token before a text and the eos token after it, where the tables name them."""
    used = [table[name] for table, name in ((before, "bos_token"), (after, "eos_token")) if name in table]
    begin, end = "bos_token" in before, "eos_token" in after
    return processors.TemplateProcessing(
        single=[*used[:begin], "$A", *used[len(used) - end :]],
        special_tokens=[(token, tokens.index(token)) for token in dict.fromkeys(used)],
    )


def _check(fields: Fields, tokens: list[Any], kinds: object) -> None:
    if not all(isinstance(token, str) for token in tokens):
        raise BadTokenizer(f"{fields.where}: a token is no text. Fetch the model again.")
    if not isinstance(kinds, list) or len(kinds) != len(tokens):
        raise BadTokenizer(
            f"{fields.where}: {len(tokens)} tokens have {len(kinds) if isinstance(kinds, list) else kinds!r}"
            " types. Fetch the model again."
        )
    if len(set(tokens)) != len(tokens):
        twice = Counter(tokens).most_common(1)[0][0]
        raise BadTokenizer(f"{fields.where}: the token {twice!r} is there twice. Fetch the model again.")

"""gguf_tokenizer: the tokenizer inside a GGUF file.

    gguf_tokenizer(checkpoint).encode("Hello")

GGUF stores a vocabulary and merges, but only the *name* of the rule that cuts a text into words;
RULES holds the rules that are known. Knows nothing of weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from pilotfish.errors import BadModel, BadTokenizer
from pilotfish.model.tokenizer.template import ChatTemplate
from pilotfish.model.tokenizer.tokenizer import Tokenizer
from pilotfish.model.weights.checkpoint import Checkpoint
from pilotfish.model.weights.fields import Fields

PREFIX = "tokenizer.ggml."
CONTROL, USER_DEFINED = 3, 4
NAMED_IDS = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",
}


def _smollm() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _words(digits: str) -> pre_tokenizers.PreTokenizer:
    """The cutting rule of Llama 3 and Qwen 2, which differ in how many digits make a word."""
    pattern = (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|" + digits + r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    )
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


RULES: Mapping[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "smollm": _smollm,
    "gpt-2": _gpt2,
    "qwen2": lambda: _words(r"\p{N}"),
    "llama-bpe": lambda: _words(r"\p{N}{1,3}"),
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
    rule = _rule(fields)
    tokens = fields.listing(PREFIX + "tokens")
    kinds = fields.values.get(PREFIX + "token_type") or [1] * len(tokens)
    _check(fields, tokens, kinds)
    model = _model(fields, tokens, ignore_merges=rule == "llama-bpe")
    bos = checkpoint.config.bos_id
    adds_bos = fields.boolean(PREFIX + "add_bos_token", default=rule == "llama-bpe")
    added = [
        AddedToken(token, special=kind == CONTROL, normalized=False)
        for token, kind in zip(tokens, kinds, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    ]
    # Two tokenizers over one vocabulary, because the setting that tells them apart is not per call.
    parsing, literal = _backend(model, rule, added), _backend(model, rule, added)
    literal.encode_special_tokens = True
    if adds_bos and bos is not None and bos < len(tokens):
        first = {"id": "first", "ids": [bos], "tokens": [tokens[bos]]}
        parsing.post_processor = processors.TemplateProcessing(single="first $A", special_tokens=[first])
    names = {
        name: tokens[fields.integer(PREFIX + field)]
        for name, field in NAMED_IDS.items()
        if fields.has(PREFIX + field) and 0 <= fields.integer(PREFIX + field) < len(tokens)
    }
    source = fields.text("tokenizer.chat_template", default="")
    template = ChatTemplate(source, names=names, where=fields.where) if source else None
    return Tokenizer(
        parsing=parsing,
        literal=literal,
        template=template,
        eos_ids=checkpoint.config.eos_ids,
        bos_id=bos,
        adds_bos=adds_bos,
    )


def _rule(fields: Fields) -> str:
    kind = fields.text(PREFIX + "model")
    if kind != "gpt2":
        raise BadTokenizer(
            f"{fields.where}: its tokenizer is of the kind {kind!r}; pilotfish reads 'gpt2' (byte-level BPE)."
            " Choose another model."
        )
    rule = fields.text(PREFIX + "pre", default="")
    if rule not in RULES:
        raise BadTokenizer(
            f"{fields.where}: {PREFIX}pre is {rule or 'absent'}, known are {', '.join(RULES)}. Without the"
            " rule that cuts words the ids would be wrong; convert the model again, or use its folder."
        )
    return rule


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


def _model(fields: Fields, tokens: list[str], *, ignore_merges: bool) -> models.BPE:
    vocabulary = {token: number for number, token in enumerate(tokens)}
    merges: list[tuple[str, str]] = []
    for merge in map(str, fields.listing(PREFIX + "merges")):
        left, _, right = merge.partition(" ")
        if not {left, right, left + right} <= vocabulary.keys():
            raise BadTokenizer(
                f"{fields.where}: the merge {merge!r} does not fit the vocabulary. Fetch the model again."
            )
        merges.append((left, right))
    return models.BPE(vocabulary, merges, ignore_merges=ignore_merges)


def _backend(model: models.BPE, rule: str, added: list[AddedToken]) -> Backend:
    backend = Backend(model)
    if rule == "qwen2":
        backend.normalizer = normalizers.NFC()
    backend.pre_tokenizer = RULES[rule]()
    backend.decoder = decoders.ByteLevel()
    backend.add_tokens(added)
    return backend

"""folder_tokenizer: the tokenizer of a Hugging Face folder.

    folder_tokenizer(checkpoint).encode("Hello")

Reads tokenizer.json, tokenizer_config.json and chat_template.jinja. Knows nothing of weights.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from pilotfish.errors import BadModel, BadTokenizer
from pilotfish.model.tokenizer.spelling import BYTE_LEVEL, SPACE, Spelling
from pilotfish.model.tokenizer.template import ChatTemplate
from pilotfish.model.tokenizer.tokenizer import Tokenizer
from pilotfish.model.weights.checkpoint import Checkpoint
from pilotfish.model.weights.fields import Fields, read_json

# The decoder of a SentencePiece vocabulary; a model that puts a space before a text strips it again.
SENTENCEPIECE = [
    {"type": "Replace", "pattern": {"String": SPACE}, "content": " "},
    {"type": "ByteFallback"},
    {"type": "Fuse"},
]
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
FIRST, NEVER = '"prepend_scheme": "first"', '"prepend_scheme": "never"'
NAMES = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


def folder_tokenizer(checkpoint: Checkpoint) -> Tokenizer:
    """The tokenizer of a folder. Raises BadTokenizer for what is missing, damaged or not supported."""
    folder = checkpoint.path
    try:
        rules, settings = read_json(folder / "tokenizer.json"), _settings(folder)
        names = {name: text for name in NAMES if (text := _special(settings, name)) is not None}
        source = _template_source(folder, settings)
    except BadModel as problem:
        raise BadTokenizer(str(problem)) from None
    spelling = _spelling(rules)
    parsing = _backend(rules, names)
    plain = _literal(rules, parsing)
    literal = (_twin(parsing) if plain is rules else None) or _backend(plain, names)
    begins = FIRST in json.dumps(rules.values.get("pre_tokenizer"))
    inner = _backend(_inside(plain), names) if begins else literal
    literal.encode_special_tokens = inner.encode_special_tokens = True
    bos, eos = (_id(parsing, names.get(name)) for name in ("bos_token", "eos_token"))
    bos = checkpoint.config.bos_id if bos is None else bos
    template = ChatTemplate(source, names=names, where=str(folder)) if source is not None else None
    return Tokenizer(
        parsing=parsing,
        literal=literal,
        template=template,
        eos_ids=checkpoint.config.eos_ids or frozenset(() if eos is None else (eos,)),
        bos_id=bos,
        adds_bos=parsing.encode("", add_special_tokens=True).ids[:1] == [bos],
        spelling=spelling,
        inner=inner,
    )


def _settings(folder: Path) -> Fields:
    path = folder / "tokenizer_config.json"
    return read_json(path) if path.exists() else Fields({}, where=str(path))


def _special(settings: Fields, name: str) -> str | None:
    """A special token by its role: a text, or a table with its text as `content`."""
    if not settings.has(name):
        return None
    value = settings.values[name]
    return (
        Fields(value, where=settings.where).text("content")
        if isinstance(value, dict)
        else settings.text(name)
    )


def _template_source(folder: Path, settings: Fields) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, ValueError) as problem:
            raise BadTokenizer(f"{path}: cannot read it ({problem}). Fetch the model again.") from None
    if not settings.has("chat_template"):
        return None
    value = settings.values["chat_template"]
    if not isinstance(value, list):
        return settings.text("chat_template")
    named: dict[Any, Any] = {
        entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)
    }
    if not isinstance(named.get("default"), str):
        raise BadTokenizer(
            f"{settings.where}: the chat templates are called {sorted(map(str, named))}, none is 'default'."
            " Write the wanted one to chat_template.jinja."
        )
    return str(named["default"])


def _spelling(rules: Fields) -> Spelling:
    model, decoder = rules.values.get("model"), rules.values.get("decoder")
    kind = model.get("type", "BPE") if isinstance(model, dict) else None
    steps = decoder.get("decoders") or [decoder] if isinstance(decoder, dict) else []
    if kind == "BPE" and any(isinstance(step, dict) and step.get("type") == "ByteLevel" for step in steps):
        return BYTE_LEVEL
    if kind == "BPE" and steps in (SENTENCEPIECE, [*SENTENCEPIECE, STRIP]):
        return Spelling.sentencepiece(strips=steps[-1] == STRIP)
    raise BadTokenizer(
        f"{rules.where}: its tokenizer is of the kind {kind!r} with the decoder"
        f" {json.dumps(decoder):.80}; pilotfish reads byte-level BPE and SentencePiece BPE."
        " Choose another model."
    )


def _literal(rules: Fields, parsing: Backend) -> Fields:
    """The rules without merges that would make a control token of text that only looks like one."""
    special = {entry.content for entry in parsing.get_added_tokens_decoder().values() if entry.special}
    model = rules.values["model"]
    merges = [
        merge
        for merge in model["merges"]
        if (merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge)) not in special
    ]
    if len(merges) == len(model["merges"]):
        return rules
    return Fields({**rules.values, "model": {**model, "merges": merges}}, where=rules.where)


def _twin(backend: Backend) -> Backend | None:
    """A second tokenizer over the same vocabulary, where one can be made without reading the file
    again (seconds for Gemma): None where the library would number the added tokens in another way."""
    added = backend.get_added_tokens_decoder()
    twin = Backend(backend.model)
    twin.normalizer, twin.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    twin.add_tokens([entry for _, entry in sorted(added.items())])
    return twin if twin.get_added_tokens_decoder() == added else None


def _inside(rules: Fields) -> Fields:
    """The rules for a part of a text that is not its beginning, and so gets no space before it."""
    inside = json.loads(json.dumps(rules.values["pre_tokenizer"]).replace(FIRST, NEVER))
    return Fields({**rules.values, "pre_tokenizer": inside}, where=rules.where)


def _backend(rules: Fields, names: dict[str, str]) -> Backend:
    try:
        backend = Backend.from_str(json.dumps(rules.values))
    except Exception as problem:  # the library raises plain Exception for everything it cannot read
        raise BadTokenizer(
            f"{rules.where}: no readable tokenizer ({problem}). Fetch the model again."
        ) from None
    # What tokenizer_config.json calls special is special, even where tokenizer.json forgot it; but a
    # word that plain text can hold ("!" as pad_token) must stay a word.
    specials = {entry.content for entry in backend.get_added_tokens_decoder().values() if entry.special}
    for text in names.values():
        token = backend.token_to_id(text)
        if text in specials or token is None:
            continue
        if list(backend.encode(text, add_special_tokens=False).ids) != [token]:
            backend.add_special_tokens([AddedToken(text, special=True, normalized=False)])
    backend.no_truncation()
    backend.no_padding()
    return backend


def _id(backend: Backend, text: str | None) -> int | None:
    return None if text is None else backend.token_to_id(text)

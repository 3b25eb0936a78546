"""Facts: what a model is, read from its files without loading it.

    facts = read_facts(ModelOptions(target="model.gguf"))
    facts.numbers["layers"], facts.tokenizer, facts.problems

A model that pilotfish cannot run has its reasons in `problems` and whatever could be read in the rest.
Knows nothing of speed, memory or proposers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pilotfish.errors import BadModel
from pilotfish.model.config import ModelConfig
from pilotfish.model.tokenizer import load_tokenizer
from pilotfish.model.weights import Checkpoint, locate, open_checkpoint
from pilotfish.model.weights.checkpoint import Entry
from pilotfish.model.weights.fields import Fields, read_json
from pilotfish.model.weights.folder_config import folder_config, folder_name
from pilotfish.model.weights.gguf_file import GgufFile
from pilotfish.model.weights.safetensors_folder import stored_entries

SIZES = ("layers", "hidden", "intermediate", "heads", "kv_heads", "head_dim", "context", "vocab")
_FOLDER_FIELDS = (
    "num_hidden_layers",
    "hidden_size",
    "intermediate_size",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "vocab_size",
)
_GGUF_FIELDS = (
    "block_count",
    "embedding_length",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "context_length",
    "vocab_size",
)

Progress = Callable[[str], None]
Stored = tuple[str, tuple[int, ...], int]  # kind, shape, bytes


@dataclass(frozen=True)
class Facts:
    """What the files say.

    numbers     by the names in SIZES, and `parameters`; None where it could not be read
    formats     stored kinds: tensors and bytes of each
    tokenizer   kind, size, chat_template, and where it can be used: eos_ids, bos_id, adds_bos
    checkpoint  None where pilotfish cannot open it
    problems    why pilotfish cannot run the model; empty where it can
    """

    path: Path
    architecture: str | None
    name: str
    numbers: Mapping[str, int | None]
    formats: Mapping[str, tuple[int, int]]
    tokenizer: Mapping[str, object]
    checkpoint: Checkpoint | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Stored bytes of all tensors."""
        return sum(size for _, size in self.formats.values())


def read_facts(target: str, progress: Progress | None = None) -> Facts:
    """The facts of a model. Raises BadModel for what is no model, or a damaged one."""
    path = locate(target, progress, any_architecture=True)
    return _of_folder(path) if path.is_dir() else _of_gguf(path)


def _of_gguf(path: Path) -> Facts:
    checkpoint, problems = _opened(path)
    if checkpoint is None:
        file = GgufFile.read(path)  # raises again where the file is damaged
        metadata = file.metadata
        stored = [(info.kind.name, info.shape, info.end - info.begin) for info in file.tensors.values()]
    else:
        metadata, stored = checkpoint.metadata, _stored(checkpoint.entries)
    fields = Fields(metadata, where=str(path))
    family = _text(fields, "general.architecture")
    sizes = _sizes(fields, [f"{family}.{name}" for name in _GGUF_FIELDS])
    return _facts(
        path,
        family,
        _text(fields, "general.name") or path.stem,
        sizes=sizes,
        stored=stored,
        tokenizer=_gguf_tokenizer(fields),
        checkpoint=checkpoint,
        problems=problems,
    )


def _of_folder(path: Path) -> Facts:
    fields = read_json(path / "config.json")
    problems: list[str] = []
    checkpoint: Checkpoint | None = None
    stored: list[Stored] = []
    try:
        folder_config(path)
    except BadModel as problem:
        problems = [str(problem)]
    try:
        stored = _stored(stored_entries(path))
    except BadModel:
        if not problems:  # the model is one that runs: its files are damaged
            raise
    if not problems:
        checkpoint, problems = _opened(path)
    return _facts(
        path,
        _text(fields, "model_type"),
        folder_name(path),
        sizes=_sizes(fields, _FOLDER_FIELDS),
        stored=stored,
        tokenizer=_folder_tokenizer(path),
        checkpoint=checkpoint,
        problems=problems,
    )


def _stored(entries: Mapping[str, Entry]) -> list[Stored]:
    return [(entry.kind, entry.shape, entry.bytes) for entry in entries.values()]


def _opened(path: Path) -> tuple[Checkpoint | None, list[str]]:
    try:
        return open_checkpoint(path), []
    except BadModel as problem:
        return None, [str(problem)]


def _facts(
    path: Path,
    architecture: str | None,
    name: str,
    *,
    sizes: dict[str, int | None],
    stored: Iterable[Stored],
    tokenizer: dict[str, object],
    checkpoint: Checkpoint | None,
    problems: list[str],
) -> Facts:
    formats: dict[str, tuple[int, int]] = {}
    for kind, _, size in stored:
        count, bytes_ = formats.get(kind, (0, 0))
        formats[kind] = count + 1, bytes_ + size
    parameters = sum(math.prod(shape) for _, shape, _ in stored) or None
    if checkpoint is not None:
        sizes, parameters = _exact_sizes(checkpoint.config), checkpoint.config.parameters
        usable, reason = _usable_tokenizer(checkpoint)
        tokenizer, problems = tokenizer | usable, problems + reason
    return Facts(
        path=path,
        architecture=architecture,
        name=name,
        numbers=sizes | {"parameters": parameters},
        formats=formats,
        tokenizer=tokenizer,
        checkpoint=checkpoint,
        problems=problems,
    )


def _exact_sizes(config: ModelConfig) -> dict[str, int | None]:
    return {name: getattr(config, name) for name in SIZES}


def _sizes(fields: Fields, names: Iterable[str]) -> dict[str, int | None]:
    """The numbers of a model that may be unknown; those that are no whole numbers are left out."""
    found = [fields.values.get(name) for name in names]
    return {
        size: value if isinstance(value, int) and not isinstance(value, bool) else None
        for size, value in zip(SIZES, found, strict=True)
    }


def _text(fields: Fields, name: str) -> str | None:
    value = fields.values.get(name)
    return value if isinstance(value, str) else None


# The tokenizer.


def _usable_tokenizer(checkpoint: Checkpoint) -> tuple[dict[str, object], list[str]]:
    try:
        made = load_tokenizer(checkpoint)
    except BadModel as problem:
        return {}, [str(problem)]
    return {
        "size": made.vocab_size,
        "chat_template": made.has_chat_template,
        "eos_ids": sorted(made.eos_ids),
        "bos_id": made.bos_id,
        "adds_bos": made.adds_bos,
    }, []


def _gguf_tokenizer(fields: Fields) -> dict[str, object]:
    tokens = fields.values.get("tokenizer.ggml.tokens")
    names = [_text(fields, f"tokenizer.ggml.{name}") for name in ("model", "pre")]
    return {
        "kind": "/".join(name for name in names if name) or None,
        "size": len(tokens) if isinstance(tokens, list) else None,
        "chat_template": fields.has("tokenizer.chat_template"),
    }


def _folder_tokenizer(path: Path) -> dict[str, object]:
    rules, settings = _json(path / "tokenizer.json"), _json(path / "tokenizer_config.json")
    model = rules.get("model")
    model = model if isinstance(model, dict) else {}
    vocabulary, added = model.get("vocab"), rules.get("added_tokens")
    size = len(vocabulary) if isinstance(vocabulary, dict | list) else None
    if size is not None and isinstance(vocabulary, dict) and isinstance(added, list):
        size += sum(isinstance(one, dict) and one.get("content") not in vocabulary for one in added)
    return {
        "kind": model.get("type", "BPE" if model else None),
        "size": size,
        "chat_template": (path / "chat_template.jinja").exists() or "chat_template" in settings,
    }


def _json(path: Path) -> Mapping[str, Any]:
    try:
        return read_json(path).values
    except BadModel:
        return {}

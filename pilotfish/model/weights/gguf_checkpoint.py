"""open_gguf: a GGUF file -> Checkpoint.

    open_gguf(Path("model.gguf")).tensor("lm_head.weight")

GGUF keeps the Q and K rows of llama models in interleaved rotary order; they are put back into
half-split order here, on the packed rows. Knows nothing of safetensors.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from pilotfish.errors import BadModel
from pilotfish.model.config import ModelConfig, architecture
from pilotfish.model.weights.checkpoint import Checkpoint, Entry
from pilotfish.model.weights.fields import Fields
from pilotfish.model.weights.gguf_file import GgufFile
from pilotfish.model.weights.tensors import Array, Tensor
from pilotfish.model.weights.unpack import unpack

OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
END_IDS = ("eos_token_id", "eot_token_id", "eom_token_id")


def open_gguf(path: Path) -> Checkpoint:
    """Opens one GGUF file. Raises BadModel for a file that is damaged or not supported."""
    file = GgufFile.read(path)
    if file.metadata.get("split.count", 0) not in (0, 1):
        raise BadModel(
            f"{path}: this is one of {file.metadata['split.count']} parts of a split GGUF, which pilotfish"
            " does not read. Join them with `llama-gguf-split --merge`."
        )
    config = gguf_config(file)
    entries = {}
    for stored, info in file.tensors.items():
        name = _canonical(stored, config, path)
        if name in entries:
            raise BadModel(f"{path}: two tensors are called {name!r}. Fetch the model again.")
        entries[name] = Entry(
            shape=info.shape,
            kind=info.kind.name,
            bytes=info.end - info.begin,
            file=path,
            mapped=file.bytes,
            read=partial(_read, file, stored, _row_order(name, config)),
        )
    return Checkpoint(path=path, config=config, metadata=file.metadata, files=(path,), entries=entries)


def gguf_config(file: GgufFile) -> ModelConfig:
    """The configuration a GGUF header declares. Raises BadModel for what is missing or not built."""
    fields = Fields(file.metadata, where=str(file.path))
    family = fields.text("general.architecture")
    fields.refuse_unbuilt(architecture(family, where=str(file.path)).gguf_not_built, prefix=f"{family}.")
    heads = fields.integer(f"{family}.attention.head_count")
    hidden = fields.integer(f"{family}.embedding_length")
    head_dim = fields.integer(f"{family}.attention.key_length", default=hidden // max(1, heads))
    _check_rotary(fields, family, head_dim)
    embedding = file.tensors.get("token_embd.weight")
    vocab = embedding.shape[0] if embedding is not None else 0
    ends = [fields.ids(f"tokenizer.ggml.{name}") for name in END_IDS]
    first = "tokenizer.ggml.bos_token_id"
    return ModelConfig(
        architecture=family,
        name=fields.text("general.name", default=file.path.stem),
        layers=fields.integer(f"{family}.block_count"),
        hidden=hidden,
        intermediate=fields.integer(f"{family}.feed_forward_length"),
        heads=heads,
        kv_heads=fields.integer(f"{family}.attention.head_count_kv", default=heads),
        head_dim=head_dim,
        vocab=fields.integer(f"{family}.vocab_size", default=vocab),
        context=fields.integer(f"{family}.context_length"),
        rms_eps=fields.number(f"{family}.attention.layer_norm_rms_epsilon"),
        rope_theta=fields.number(f"{family}.rope.freq_base", default=10_000.0),
        tied_embeddings="output.weight" not in file.tensors,
        eos_ids=frozenset().union(*ends),
        bos_id=fields.integer(first) if fields.has(first) else None,
    )


def _check_rotary(fields: Fields, family: str, head_dim: int) -> None:
    """Positions must turn whole heads, and keys and values must be equally wide."""
    for name in (f"{family}.rope.dimension_count", f"{family}.attention.value_length"):
        if fields.integer(name, default=head_dim) != head_dim:
            raise BadModel(
                f"{fields.where}: {name} is {fields.values[name]} with heads of {head_dim}, which pilotfish"
                " has not built. Choose a model where they agree."
            )


def _canonical(stored: str, config: ModelConfig, path: Path) -> str:
    if stored in OUTER_NAMES:
        return OUTER_NAMES[stored]
    if stored == "rope_freqs.weight":
        raise BadModel(
            f"{path}: it scales its rotary positions (rope_freqs.weight), which pilotfish has not built."
            " Choose a model without rope scaling."
        )
    names = architecture(config.architecture, where=str(path)).gguf_layer_names
    block, _, rest = stored.partition(".")
    layer, _, inner = rest.partition(".")
    if block == "blk" and layer.isdecimal() and inner in names:
        return f"model.layers.{layer}.{names[inner]}"
    return stored  # Checkpoint refuses it by this name


def _row_order(name: str, config: ModelConfig) -> Array | None:
    """Which stored row comes at each place, or None for the stored order."""
    heads = {"q_proj": config.heads, "k_proj": config.kv_heads}.get(name.split(".")[-2])
    if heads is None or not architecture(config.architecture, where=name).gguf_interleaved:
        return None
    order = np.arange(heads * config.head_dim).reshape(heads, config.head_dim // 2, 2)
    return order.swapaxes(1, 2).ravel()


def _read(file: GgufFile, stored: str, order: Array | None) -> Tensor:
    rows = file.raw(stored)
    return unpack(rows if order is None else rows[order], file.tensors[stored].kind)

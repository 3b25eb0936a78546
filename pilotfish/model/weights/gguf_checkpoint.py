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
from pilotfish.model.config import ModelConfig
from pilotfish.model.weights.checkpoint import Checkpoint, Entry
from pilotfish.model.weights.gguf_config import DIVISORS, gguf_config
from pilotfish.model.weights.gguf_file import GgufFile
from pilotfish.model.weights.tensors import Array, Tensor
from pilotfish.model.weights.unpack import unpack

OUTER_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


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
        if stored == DIVISORS:  # part of the configuration
            continue
        name = _canonical(stored, config)
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


def _canonical(stored: str, config: ModelConfig) -> str:
    """Our name of a tensor; one that is not known keeps its own, and Checkpoint refuses it by that."""
    if stored in OUTER_NAMES:
        return OUTER_NAMES[stored]
    block, _, rest = stored.partition(".")
    layer, _, inner = rest.partition(".")
    part, _, kind = inner.rpartition(".")
    if block == "blk" and layer.isdecimal() and part in config.traits.gguf_names:
        return f"model.layers.{layer}.{config.traits.gguf_names[part]}.{kind}"
    return stored


def _row_order(name: str, config: ModelConfig) -> Array | None:
    """Which stored row comes at each place, or None for the stored order."""
    heads = {"q_proj": config.heads, "k_proj": config.kv_heads}.get(name.split(".")[-2])
    if heads is None or not config.traits.gguf_interleaved:
        return None
    order = np.arange(heads * config.head_dim).reshape(heads, config.head_dim // 2, 2)
    return order.swapaxes(1, 2).ravel()


def _read(file: GgufFile, stored: str, order: Array | None) -> Tensor:
    rows = file.raw(stored)
    if order is not None:  # of a bias, every row is one number
        rows = rows.reshape(len(order), -1)[order].reshape(rows.shape)
    return unpack(rows, file.tensors[stored].kind)

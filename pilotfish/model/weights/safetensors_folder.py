"""open_folder: a Hugging Face folder (config.json and *.safetensors) -> Checkpoint.

    open_folder(Path("~/models/SmolLM2-135M").expanduser()).config

Reads one model.safetensors, or the shards that model.safetensors.index.json lists. Arrays are
views of the mapped files; bfloat16 is widened. Knows nothing of GGUF.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pilotfish.errors import BadModel
from pilotfish.model.weights.checkpoint import Checkpoint, Entry
from pilotfish.model.weights.fields import Fields, read_json
from pilotfish.model.weights.folder_config import folder_config
from pilotfish.model.weights.mapped import map_file
from pilotfish.model.weights.tensors import Array, Dense

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
LONGEST_HEADER = 100_000_000
STORED_TYPES: Mapping[str, type[np.generic]] = {"F32": np.float32, "F16": np.float16, "BF16": np.uint16}
OTHER_FILES = ("config.json", "generation_config.json")


def open_folder(path: Path) -> Checkpoint:
    """Opens a Hugging Face folder. Raises BadModel for what is missing, damaged or not supported."""
    config = folder_config(path)
    entries = {}
    for name, entry in stored_entries(path, norm_offset=config.traits.norm_offset).items():
        # Old checkpoints store the rotary table, and tied ones the embedding again.
        tied_copy = name == "lm_head.weight" and config.tied_embeddings
        if not (name.endswith("rotary_emb.inv_freq") or tied_copy):
            entries[name] = entry
    others = tuple(path / name for name in OTHER_FILES if (path / name).is_file())
    return Checkpoint(path=path, config=config, metadata={}, files=(*others, *_shards(path)), entries=entries)


def stored_entries(path: Path, *, norm_offset: float = 0.0) -> dict[str, Entry]:
    """Every tensor of a folder, whatever the model. Raises BadModel for what is missing or damaged."""
    return {name: entry for shard in _shards(path) for name, entry in _entries(shard, norm_offset)}


def _shards(path: Path) -> tuple[Path, ...]:
    if (path / SINGLE).is_file():
        return (path / SINGLE,)
    if not (path / INDEX).is_file():
        raise BadModel(
            f"{path}: neither {SINGLE} nor {INDEX} is there. pilotfish reads safetensors and GGUF, not"
            " PyTorch .bin files; fetch the model in one of these."
        )
    index = read_json(path / INDEX)
    listed = index.values.get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise BadModel(f"{path / INDEX}: 'weight_map' must map tensors to files. Fetch the model again.")
    shards = tuple(path / name for name in sorted(set(listed.values())))
    missing = [shard.name for shard in shards if not shard.is_file()]
    if missing:
        raise BadModel(f"{path}: {len(missing)} of {len(shards)} shards are missing: {missing[0]}. Fetch it.")
    return shards


def _entries(path: Path, norm_offset: float) -> Iterable[tuple[str, Entry]]:
    """The tensors of one file. Families that store norm weights less a number get it back here."""
    mapped = map_file(path)
    size = int.from_bytes(mapped[:8].tobytes(), "little")
    if mapped.size < 8 or not 2 <= size <= min(LONGEST_HEADER, mapped.size - 8):
        raise BadModel(
            f"{path}: the file of {mapped.size} bytes announces a header of {size}: it is cut off or no"
            " safetensors file. Fetch the model again."
        )
    body = mapped[8 + size :]
    for name, stored in _header(path, mapped[8 : 8 + size].tobytes()).items():
        if name == "__metadata__":
            continue
        kind, shape, begin, end = _place(path, name, stored)
        if end > body.size:
            raise BadModel(
                f"{path}: the file is cut off: {name!r} ends at byte {8 + size + end}, the file at"
                f" {mapped.size}. Fetch the model again."
            )
        offset = norm_offset if name.endswith("norm.weight") else 0.0
        read = partial(_read, body[begin:end], kind, shape, offset)
        yield name, Entry(shape=shape, kind=kind, bytes=end - begin, file=path, mapped=mapped, read=read)


def _header(path: Path, text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadModel(f"{path}: its header is not JSON ({problem}). Fetch the model again.") from None
    if not isinstance(header, dict):
        raise BadModel(f"{path}: its header is a {type(header).__name__}, no table. Fetch the model again.")
    return header


def _place(path: Path, name: str, stored: object) -> tuple[str, tuple[int, ...], int, int]:
    fields = Fields(stored if isinstance(stored, dict) else {}, where=f"{path}: the tensor {name!r}")
    kind, shape, offsets = fields.text("dtype"), fields.listing("shape"), fields.listing("data_offsets")
    if kind not in STORED_TYPES:
        raise BadModel(
            f"{fields.where} is stored as {kind}; pilotfish reads {', '.join(STORED_TYPES)} from safetensors."
            " Choose a model in one of these."
        )
    numbers = [*shape, *offsets]
    whole = all(
        isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers
    )
    size = np.dtype(STORED_TYPES[kind]).itemsize
    if not whole or len(offsets) != 2 or offsets[1] - offsets[0] != math.prod(shape) * size:
        raise BadModel(
            f"{fields.where}: shape {shape} and bytes {offsets} do not fit {kind}. Fetch the model again."
        )
    return kind, tuple(shape), offsets[0], offsets[1]


def _read(stored: Array, kind: str, shape: tuple[int, ...], offset: float) -> Dense:
    values = stored.view(STORED_TYPES[kind]).reshape(shape)
    if kind == "BF16":  # the upper half of a float32
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return Dense(values.astype(np.float32) + np.float32(offset) if offset else values)

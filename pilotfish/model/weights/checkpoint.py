"""Checkpoint: a model's configuration and its named tensors, whatever file they come from.

    checkpoint = open_checkpoint(Path("SmolLM2.gguf"))
    checkpoint.config.layers, checkpoint.stored_format
    checkpoint.tensor("model.layers.3.self_attn.q_proj.weight")     # Dense or Grouped, [out, in]

Names are the Hugging Face ones, and Q and K rows are in the half-split rotary order, for both
file kinds. Nothing is decoded before it is asked for. Knows nothing of runtimes or tokens.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilotfish.errors import BadModel
from pilotfish.model.config import ModelConfig, Shape
from pilotfish.model.weights.mapped import give_back
from pilotfish.model.weights.tensors import Array, Tensor

SAMPLE = 1 << 16


@dataclass(frozen=True)
class Entry:
    """One stored tensor: what it is, how to read it, and the mapped file that it lies in."""

    shape: Shape
    kind: str
    bytes: int
    file: Path
    mapped: Array
    read: Callable[[], Tensor]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """An open model. All expected tensors are there and have the expected shapes.

    path      the GGUF file, or the folder
    metadata  what a GGUF says besides its tensors (tokenizer included); empty for a folder
    """

    path: Path
    config: ModelConfig
    metadata: Mapping[str, Any]
    files: tuple[Path, ...]
    entries: Mapping[str, Entry]

    def __post_init__(self) -> None:
        expected = self.config.tensor_shapes()
        missing = [name for name in expected if name not in self.entries]
        if missing:
            raise BadModel(
                f"{self.path}: {len(missing)} of {len(expected)} tensors are missing, first {missing[0]!r}."
                " Fetch the model again."
            )
        for name, entry in self.entries.items():
            if name not in expected:
                if name.startswith(self.config.traits.carried):
                    continue
                raise BadModel(
                    f"{entry.file}: it holds the tensor {name!r}, which pilotfish does not know for"
                    f" {self.config.architecture!r} and will not ignore. Choose another model."
                )
            if entry.shape != expected[name]:
                raise BadModel(
                    f"{entry.file}: {name!r} has the shape {entry.shape}, the configuration asks for"
                    f" {expected[name]}. Weights and configuration belong to different models."
                )

    def names(self) -> tuple[str, ...]:
        """The canonical names of all tensors, in the model's order."""
        return tuple(self.config.tensor_shapes())

    def tensor(self, name: str) -> Tensor:
        """One tensor, decoded now. Keep it if it is needed twice.

        The pages of the file that were read before are given back.
        """
        if name not in self.entries:
            raise BadModel(f"{self.path}: there is no tensor {name!r}; names() lists them.")
        entry = self.entries[name]
        give_back(entry.mapped)
        try:
            return entry.read()
        except BadModel as problem:
            raise BadModel(f"{entry.file}: {name!r}: {problem}. Fetch the model again.") from None

    @property
    def is_gguf(self) -> bool:
        """True for a GGUF file, False for a folder."""
        return self.path.is_file()

    @property
    def bytes(self) -> int:
        """Stored bytes of all tensors."""
        return sum(entry.bytes for entry in self.entries.values())

    @property
    def stored_format(self) -> str:
        """How the weights are stored, for people: "Q4_1 (210), F32 (61), Q8_0 (1)"."""
        kinds = Counter(entry.kind for entry in self.entries.values())
        return ", ".join(f"{kind} ({count})" for kind, count in kinds.most_common())

    @property
    def fingerprint(self) -> str:
        """A cheap identity for caches: changes when a file is replaced, touched or edited at its
        ends; it is no proof of content."""
        digest = hashlib.blake2b(digest_size=16)
        for file in self.files:
            state = file.stat()
            digest.update(f"{file.name}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
            with file.open("rb") as stream:
                digest.update(stream.read(SAMPLE))
                stream.seek(max(0, state.st_size - SAMPLE))
                digest.update(stream.read(SAMPLE))
        return digest.hexdigest()

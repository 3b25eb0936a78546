"""weights: named tensors out of GGUF files and Hugging Face folders, and finding such files.

    checkpoint = open_checkpoint(locate("embedded"))
    checkpoint.config, checkpoint.names(), checkpoint.tensor("model.norm.weight")

Knows nothing of runtimes, tokens or sampling.
"""

from __future__ import annotations

from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.weights.checkpoint import Checkpoint, Entry
from pilotfish.model.weights.embedded import cache_folder, embedded_path
from pilotfish.model.weights.gguf_checkpoint import open_gguf
from pilotfish.model.weights.locate import locate
from pilotfish.model.weights.safetensors_folder import open_folder
from pilotfish.model.weights.tensors import Dense, Grouped, Tensor

__all__ = [
    "Checkpoint",
    "Dense",
    "Entry",
    "Grouped",
    "Tensor",
    "cache_folder",
    "embedded_path",
    "locate",
    "open_checkpoint",
]


def open_checkpoint(path: Path) -> Checkpoint:
    """Opens a GGUF file or a Hugging Face folder and checks that all tensors are there.

    Raises BadModel for a model that is missing, damaged or not supported.
    """
    if path.is_dir():
        return open_folder(path)
    if not path.exists():
        raise BadModel(f"{path}: there is no such file or folder. Check the path.")
    return open_gguf(path)

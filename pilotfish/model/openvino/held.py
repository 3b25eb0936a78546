"""Held: how many bytes the weights take in a form, without building the graph.

    held = Held.of(checkpoint, "int8")
    held.memory, held.read

A small matrix of each stored kind is put into the form and stands for all of that kind. Knows nothing of
what the runtime needs besides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import openvino as ov
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from pilotfish.model.openvino.forms import constant, formed
from pilotfish.model.weights import Checkpoint, Dense, Tensor
from pilotfish.model.weights.checkpoint import Entry
from pilotfish.model.weights.safetensors_folder import STORED_TYPES
from pilotfish.model.weights.unpack import unpack

_WIDTH = 256  # a whole number of blocks of every kind
EMBEDDING = "model.embed_tokens.weight"


@dataclass(frozen=True)
class Held:
    """Bytes of the weights.

    mapped  of the saved graph, which the system may drop and read again
    read    by a pass over few rows: of the copy that the runtime arranges for its kernels
    """

    mapped: int
    read: int

    @property
    def memory(self) -> int:
        """Both. (For the embedded model in int8 335 MB; the process grew by 494, runtime included.)"""
        return self.mapped + self.read

    @classmethod
    def of(cls, checkpoint: Checkpoint, form: str) -> Held:
        """Estimates. Raises BadModel where a stored kind cannot be decoded."""
        kinds = {entry.kind for entry in checkpoint.entries.values() if len(entry.shape) > 1}
        rates = {kind: _bytes_per_value(kind, form) for kind in kinds}

        def size(entry: Entry) -> float:
            return math.prod(entry.shape) * (rates[entry.kind] if len(entry.shape) > 1 else 4.0)

        total = sum(map(size, checkpoint.entries.values()))
        embedding = size(checkpoint.entries[EMBEDDING])
        # A pass reads few rows of the embedding but all of the head; a tied one is there for each.
        tied = checkpoint.config.tied_embeddings
        return cls(mapped=round(total + embedding * tied), read=round(total - embedding * (not tied)))


def _bytes_per_value(kind: str, form: str) -> float:
    node = constant(formed(_sample(kind), form)).get_node()
    return _constant_bytes(node) / int(np.prod(node.get_output_shape(0)))


def _sample(kind: str) -> Tensor:
    """A matrix of zeros, stored as this kind."""
    if kind in STORED_TYPES:
        return Dense(np.zeros((2, _WIDTH), np.float16 if kind == "F16" else np.float32))
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return unpack(np.zeros((2, _WIDTH // block * size), np.uint8), GGMLQuantizationType[kind])


def _constant_bytes(node: ov.Node) -> float:
    """Bytes of all constants that a node is made of, scalars and shapes left out."""
    if node.get_type_name() == "Constant":
        values = int(np.prod(node.get_output_shape(0)))
        return values * int(node.get_output_element_type(0).bitwidth) / 8
    inputs = range(node.get_input_size())
    if node.get_type_name() == "Reshape":
        inputs = range(1)
    return float(sum(_constant_bytes(node.input_value(index).get_node()) for index in inputs))

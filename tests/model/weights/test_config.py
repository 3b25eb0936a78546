"""ModelConfig: derived numbers, and refusal of numbers that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from pilotfish.errors import BadModel
from pilotfish.model.config import ModelConfig
from pilotfish.model.rotary import Rotary

GOOD: dict[str, Any] = {
    "architecture": "llama",
    "name": "tiny",
    "layers": 2,
    "hidden": 64,
    "intermediate": 96,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "vocab": 512,
    "context": 256,
    "rms_eps": 1e-5,
    "rotaries": (Rotary(theta=1e4),) * 2,
    "windows": (None, None),
    "tied_embeddings": False,
    "eos_ids": frozenset({2}),
    "bos_id": 1,
}


def test_derived_numbers() -> None:
    config = ModelConfig(**GOOD)
    assert config.queries_per_kv_head == 2
    assert config.kv_bytes_per_token(2) == 2 * 2 * 2 * 16 * 2
    layer = 64 * 64 * 2 + 32 * 64 * 2 + 3 * 64 * 96 + 2 * 64
    assert config.parameters == 2 * 512 * 64 + 64 + 2 * layer


def test_a_tied_embedding_counts_once() -> None:
    tied = ModelConfig(**GOOD | {"tied_embeddings": True})
    assert "lm_head.weight" not in tied.tensor_shapes()
    assert tied.parameters == ModelConfig(**GOOD).parameters - 512 * 64


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"architecture": "mamba"}, r"'mamba'.*llama"),
        ({"layers": 0}, "layers is 0"),
        ({"layers": 10**9}, "layers is"),
        ({"vocab": 1 << 40}, "vocab is"),
        ({"kv_heads": 3}, "3 key/value heads"),
        ({"head_dim": 15}, "head_dim is 15"),
        ({"rms_eps": float("nan")}, "rms_eps is nan"),
        ({"rotaries": (None,)}, "rotaries are given for 1 of 2 layers"),
        ({"windows": (None, 0)}, "window is 0 tokens"),
        ({"activation": "relu"}, "activation is 'relu'"),
        ({"attention_scale": 0.0}, r"attention_scale is 0\.0"),
        ({"eos_ids": frozenset({512})}, "512 is outside"),
        ({"bos_id": -1}, "-1 is outside"),
    ],
)
def test_impossible_numbers_are_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(BadModel, match=named):
        ModelConfig(**GOOD | change)

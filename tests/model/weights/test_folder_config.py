"""folder_config: what a config.json leaves out, and odd values of what it says, family by family."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilotfish.errors import BadModel
from pilotfish.model.config import ModelConfig
from pilotfish.model.weights.folder_config import folder_config

SIZES = {
    "num_hidden_layers": 30,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
}
WINDOW = {"use_sliding_window": True, "sliding_window": 16}


def read(folder: Path, family: str, **said: Any) -> ModelConfig:  # noqa: ANN401 - any JSON
    (folder / "config.json").write_text(json.dumps(SIZES | {"model_type": family} | said))
    return folder_config(folder)


def thetas(config: ModelConfig) -> set[tuple[int | None, float]]:
    """(window, rotary base) of all layers."""
    return {
        (window, rotary.theta)
        for window, rotary in zip(config.windows, config.rotaries, strict=True)
        if rotary is not None
    }


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "mimo"])
def test_windows_begin_at_layer_28_where_nothing_is_said(family: str, tmp_path: Path) -> None:
    assert read(tmp_path, family, **WINDOW).windows == (None,) * 28 + (16, 16)
    assert read(tmp_path, family, **WINDOW, max_window_layers=29).windows == (None,) * 29 + (16,)


def test_windows_of_smollm3_are_where_positions_are_not(tmp_path: Path) -> None:
    config = read(tmp_path, "smollm3", **WINDOW)
    assert config.windows == tuple(16 if rotary is None else None for rotary in config.rotaries)
    assert config.windows[:4] == (None, None, None, 16)


def test_nested_rotary_tables_take_what_they_leave_out_from_around_them(tmp_path: Path) -> None:
    nested = {"full_attention": {"rope_type": "default"}}
    said = {"rope_parameters": nested, "sliding_window": 16}
    assert thetas(read(tmp_path, "gemma3_text", **said)) == {(None, 1e6), (16, 1e4)}
    said |= {"rope_theta": 5e5, "rope_local_base_freq": 2e4}
    assert thetas(read(tmp_path, "gemma3_text", **said)) == {(None, 5e5), (16, 2e4)}


@pytest.mark.parametrize(
    ("family", "said", "named"),
    [
        ("qwen3", WINDOW | {"layer_types": [["full_attention"]] * 30}, "layer_types must name"),
        ("qwen3", WINDOW | {"layer_types": ["full_attention"]}, "found 1"),
        ("qwen3", WINDOW | {"sliding_window": -1}, "sliding window is -1"),
        ("smollm3", {"no_rope_layers": [1, 2] * 15}, "no_rope_layers must be 0 or 1"),
        ("smollm3", {"no_rope_layers": [1, [0]] * 15}, "no_rope_layers must be 0 or 1"),
        ("smollm3", {"no_rope_layers": [1]}, "found 1 entries"),
        ("smollm3", {"no_rope_layer_interval": 0}, "no_rope_layer_interval is 0"),
        ("gemma3_text", {"query_pre_attn_scalar": 0}, r"attention_scale is 0\.0"),
        ("gemma3_text", {"query_pre_attn_scalar": -256}, r"attention_scale is 0\.0"),
    ],
)
def test_odd_values_are_refused(family: str, said: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=named):
        read(tmp_path, family, **said)


def test_two_tables_that_differ_are_refused(tmp_path: Path) -> None:
    plain, slow = {"rope_type": "default"}, {"rope_type": "linear", "factor": 2.0}
    assert read(tmp_path, "llama", rope_parameters=plain, rope_scaling=plain).rotaries[0] is not None
    with pytest.raises(BadModel, match="rope_parameters and rope_scaling say different things"):
        read(tmp_path, "llama", rope_parameters=plain, rope_scaling=slow)

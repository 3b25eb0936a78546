"""open_gguf: names, row order, and refusal of what is missing or not built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind

from pilotfish.errors import BadModel
from pilotfish.model.weights import Checkpoint, Grouped, open_checkpoint
from tests.fixtures.tiny_gguf import HEAD_DIM, HEADS, HIDDEN, random_tensors, write_gguf


def half_split(rows: np.ndarray, heads: int) -> np.ndarray:
    """What transformers does to Q and K of a GGUF, written the slow way."""
    out = np.empty_like(rows)
    for head in range(heads):
        for pair in range(HEAD_DIM // 2):
            for part in range(2):
                at = head * HEAD_DIM
                out[at + part * HEAD_DIM // 2 + pair] = rows[at + 2 * pair + part]
    return out


def test_the_embedded_model(embedded: Checkpoint) -> None:
    config = embedded.config
    assert (config.layers, config.heads, config.kv_heads, config.head_dim) == (30, 9, 3, 64)
    assert config.tied_embeddings and config.eos_ids == {2} and config.vocab == 49152
    assert config.parameters == 134_515_008
    assert embedded.stored_format == "Q4_1 (210), F32 (61), Q8_0 (1)"
    assert embedded.bytes < embedded.path.stat().st_size
    assert len(embedded.names()) == 272


def test_q_and_k_rows_come_in_half_split_order(tmp_path: Path) -> None:
    checkpoint, stored = open_checkpoint(write_gguf(tmp_path / "t.gguf")), random_tensors()
    for name, heads in (("q", HEADS), ("k", 2)):
        found = checkpoint.tensor(f"model.layers.0.self_attn.{name}_proj.weight").to_float32()
        assert np.array_equal(found, half_split(stored[f"blk.0.attn_{name}.weight"], heads))
    found = checkpoint.tensor("model.layers.0.self_attn.v_proj.weight").to_float32()
    assert np.array_equal(found, stored["blk.0.attn_v.weight"])


def test_packed_rows_are_put_in_order_too(tmp_path: Path) -> None:
    dense = open_checkpoint(write_gguf(tmp_path / "dense.gguf"))
    packed = open_checkpoint(write_gguf(tmp_path / "packed.gguf", kind=Kind.Q8_0))
    name = "model.layers.0.self_attn.q_proj.weight"
    tensor = packed.tensor(name)
    assert isinstance(tensor, Grouped)
    assert np.abs(tensor.to_float32() - dense.tensor(name).to_float32()).max() < 4e-3


def test_an_output_matrix_makes_it_untied(tmp_path: Path) -> None:
    output = random_tensors(seed=1)["token_embd.weight"]
    checkpoint = open_checkpoint(write_gguf(tmp_path / "t.gguf", tensors={"output.weight": output}))
    assert not checkpoint.config.tied_embeddings
    assert np.array_equal(checkpoint.tensor("lm_head.weight").to_float32(), output)


def test_the_fingerprint_follows_the_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "t.gguf")
    first = open_checkpoint(path).fingerprint
    assert open_checkpoint(path).fingerprint == first
    stored = bytearray(path.read_bytes())
    stored[-1] ^= 1
    path.unlink()
    path.write_bytes(stored)
    assert open_checkpoint(path).fingerprint != first


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"general.architecture": "rwkv"}, r"'rwkv'.*runs gemma3, llama, "),
        ({"llama.block_count": None}, "'llama.block_count' is missing"),
        ({"llama.block_count": 2}, "tensors are missing, first 'model.layers.1"),
        ({"llama.block_count": "one"}, "expected a whole number"),
        ({"llama.attention.head_count": 0}, "heads is 0"),
        ({"llama.embedding_length": 128}, "belong to different models"),
        ({"llama.vocab_size": 999}, "belong to different models"),
        ({"llama.rope.scaling.type": "yarn"}, r"original_context_length' is missing"),
        ({"llama.rope.scaling.type": "longrope"}, r"rope\.scaling\.type is 'longrope'"),
        ({"llama.rope.freq_base": 0.0}, "rope_theta of the rotary positions is 0.0"),
        ({"llama.block_count": 10**9}, "block_count is 1000000000"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count is 8"),
        ({"llama.expert_count": 4}, "expert_count is 4"),
        ({"llama.attention.sliding_window": 4096}, "sliding_window is 4096"),
        ({"split.count": 3}, "one of 3 parts"),
        ({"general.alignment": 24}, "general.alignment is 24"),
        ({"tokenizer.ggml.eos_token_id": 70000}, "70000 is outside"),
    ],
)
def test_metadata_that_cannot_be_run_is_refused(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=named):
        open_checkpoint(write_gguf(tmp_path / "t.gguf", metadata=change))


@pytest.mark.parametrize(
    ("name", "values", "named"),
    [
        ("blk.0.attn_q.weight", None, "self_attn.q_proj.weight' *.*Fetch"),
        ("blk.0.attn_q.weight", np.zeros((8, HIDDEN), np.float32), r"shape \(8, 64\).*\(64, 64\)"),
        ("blk.0.attn_q.bias", np.zeros(8, np.float32), r"shape \(8,\).*\(64,\)"),
        ("blk.0.attn_q_norm.weight", np.zeros(16, np.float32), "q_norm.weight'.*will not ignore"),
        ("blk.0.attn_sinks.weight", np.zeros(4, np.float32), "'blk.0.attn_sinks.weight'.*will not ignore"),
        ("rope_freqs.weight", np.ones(7, np.float32), "there are 7 rotary divisors for heads of 16"),
    ],
)
def test_wrong_tensors_are_refused(name: str, values: np.ndarray | None, named: str, tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=named):
        open_checkpoint(write_gguf(tmp_path / "t.gguf", tensors={name: values}))


def test_a_table_of_rotary_divisors_is_read(tmp_path: Path) -> None:
    divisors = np.arange(1, 9, dtype=np.float32)
    config = open_checkpoint(write_gguf(tmp_path / "t.gguf", tensors={"rope_freqs.weight": divisors})).config
    [rotary] = config.rotaries
    assert rotary is not None and rotary.divisors == tuple(range(1, 9))
    plain = 1e4 ** (-np.arange(0, 16, 2) / 16)
    assert np.allclose(rotary.inverse(16), plain / divisors)


def test_biases_are_put_in_order_too(tmp_path: Path) -> None:
    bias = np.arange(HIDDEN, dtype=np.float32)
    checkpoint = open_checkpoint(write_gguf(tmp_path / "t.gguf", tensors={"blk.0.attn_q.bias": bias}))
    assert checkpoint.config.biased == {"self_attn.q_proj"}
    found = checkpoint.tensor("model.layers.0.self_attn.q_proj.bias").to_float32()
    assert np.array_equal(found, half_split(bias[:, None], HEADS)[:, 0])


def test_an_unknown_tensor_is_named(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "t.gguf"))
    with pytest.raises(BadModel, match="no tensor 'nothing'"):
        checkpoint.tensor("nothing")


def test_damaged_weights_name_file_and_tensor(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "t.gguf", kind=Kind.Q4_1)
    end = len(path.read_bytes())
    stored = np.frombuffer(path.read_bytes(), np.uint8).copy()
    stored[end - 4000 :] = 0xFF
    path.unlink()
    path.write_bytes(stored.tobytes())
    checkpoint = open_checkpoint(path)
    with pytest.raises(BadModel, match=r"t\.gguf: 'model\.layers.*infinite"):
        for name in checkpoint.names():
            checkpoint.tensor(name)

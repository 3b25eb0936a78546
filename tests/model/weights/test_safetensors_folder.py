"""open_folder: single and sharded safetensors, and refusal of everything that is not whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pilotfish.errors import BadModel
from pilotfish.model.rotary import Rotary
from pilotfish.model.weights import Dense, open_checkpoint

FIXTURES = Path(__file__).parents[2] / "fixtures"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURES / "tiny_llama", tmp_path / "model"))


def shard(folder: Path) -> Path:
    """Cuts the one file of a folder into three shards with an index."""
    tensors = load_file(folder / "model.safetensors")
    names = {name: f"model-{place % 3}.safetensors" for place, name in enumerate(tensors)}
    for file in sorted(set(names.values())):
        save_file({name: tensors[name] for name in tensors if names[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return folder


def edit(path: Path, change: dict[str, Any]) -> None:
    """Changes fields of a JSON file; None as a value removes one."""
    fields = {**json.loads(path.read_text()), **change}
    path.write_text(json.dumps({key: value for key, value in fields.items() if value is not None}))


def test_a_folder_is_read_without_copies(folder: Path) -> None:
    checkpoint, stored = open_checkpoint(folder), load_file(folder / "model.safetensors")
    assert checkpoint.config.eos_ids == {2} and checkpoint.config.rotaries == (Rotary(theta=10_000),) * 2
    assert checkpoint.stored_format == "F32 (21)"
    assert set(checkpoint.names()) == set(stored)
    for name in checkpoint.names():
        tensor = checkpoint.tensor(name)
        assert isinstance(tensor, Dense)
        assert np.array_equal(tensor.array, stored[name])
        assert not tensor.array.flags.owndata and np.shares_memory(tensor.array, tensor.to_float32())


def test_shards_hold_the_same(folder: Path) -> None:
    single = {
        name: open_checkpoint(folder).tensor(name).to_float32().copy() for name in ["model.norm.weight"]
    }
    sharded = open_checkpoint(shard(folder))
    assert len(sharded.names()) == 21
    assert np.array_equal(sharded.tensor("model.norm.weight").to_float32(), single["model.norm.weight"])


def test_bfloat16_is_widened_exactly() -> None:
    checkpoint = open_checkpoint(FIXTURES / "tiny_llama_tied")
    assert checkpoint.config.tied_embeddings and checkpoint.stored_format == "BF16 (20)"
    values = checkpoint.tensor("model.embed_tokens.weight").to_float32()
    assert values.dtype == np.float32 and values.std() == pytest.approx(0.125, rel=0.05)
    assert not (values.view(np.uint32) & 0xFFFF).any()


def test_float16_stays_float16(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    save_file(
        {name: values.astype(np.float16) for name, values in stored.items()}, folder / "model.safetensors"
    )
    tensor = open_checkpoint(folder).tensor("lm_head.weight")
    assert isinstance(tensor, Dense) and tensor.array.dtype == np.float16
    assert tensor.to_float32().dtype == np.float32


def test_old_and_tied_leftovers_are_passed_over(folder: Path) -> None:
    stored = load_file(folder / "model.safetensors")
    stored["model.layers.0.self_attn.rotary_emb.inv_freq"] = np.ones(8, np.float32)
    save_file(stored, folder / "model.safetensors")
    edit(folder / "config.json", {"tie_word_embeddings": True})
    assert "lm_head.weight" not in open_checkpoint(folder).entries


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": None}, "'model_type' is missing"),
        ({"model_type": "gpt_bigcode"}, r"'gpt_bigcode'.*runs gemma3_text, llama, "),
        ({"model_type": 7}, "expected a text"),
        ({"hidden_size": None}, "'hidden_size' is missing"),
        ({"hidden_size": "64"}, "expected a whole number"),
        ({"hidden_size": 1e9}, "expected a whole number"),
        ({"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000"),
        ({"num_hidden_layers": True}, "expected a whole number"),
        ({"num_attention_heads": 0}, "heads is 0"),
        ({"num_attention_heads": -4}, "heads is -4"),
        ({"rms_norm_eps": "small"}, "expected a number"),
        ({"rms_norm_eps": 10**400}, "expected a number"),
        ({"tie_word_embeddings": 1}, "expected true or false"),
        ({"vocab_size": 600}, "belong to different models"),
        ({"attention_bias": True}, "q_proj.bias"),
        ({"hidden_act": "gelu"}, "activation is 'gelu'"),
        ({"sliding_window": 4096}, "sliding_window is 4096"),
        ({"quantization_config": {"bits": 4}}, "quantization_config is"),
        ({"rope_parameters": None, "rope_scaling": {"type": "longrope"}}, "rope_scaling asks for 'longrope'"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "rope_parameters asks for 'dynamic'"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "'factor' is missing"),
        (
            {"rope_parameters": {"rope_type": "linear", "factor": -2}},
            "model: the rope factor of the rot",
        ),
        ({"rope_parameters": None, "rope_scaling": "linear"}, "rope_scaling is 'linear', expected a table"),
        ({"rope_parameters": [1]}, "expected a table"),
        (
            {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}},
            "partial_rotary_factor",
        ),
    ],
)
def test_configurations_that_cannot_be_run_are_refused(
    change: dict[str, Any], named: str, folder: Path
) -> None:
    edit(folder / "config.json", change)
    with pytest.raises(BadModel, match=named):
        open_checkpoint(folder)


def test_generation_config_names_the_end_ids(folder: Path) -> None:
    edit(folder / "generation_config.json", {"eos_token_id": [2, 0]})
    assert open_checkpoint(folder).config.eos_ids == {0, 2}
    edit(folder / "generation_config.json", {"eos_token_id": ["</s>"]})
    with pytest.raises(BadModel, match="expected a token id"):
        open_checkpoint(folder)


@pytest.mark.parametrize("stored", [b"", b"{", b"[1, 2]", b"\xff\xfe\x00", b"[" * 100_000])
def test_a_config_that_is_no_object_is_refused(stored: bytes, folder: Path) -> None:
    (folder / "config.json").write_bytes(stored)
    with pytest.raises(BadModel, match=r"config\.json"):
        open_checkpoint(folder)


def test_missing_files_are_named(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(BadModel, match=r"neither model\.safetensors nor"):
        open_checkpoint(folder)
    (folder / "config.json").unlink()
    with pytest.raises(BadModel, match=r"config\.json: there is no such file"):
        open_checkpoint(folder)
    with pytest.raises(BadModel, match="no such file or folder"):
        open_checkpoint(folder / "nowhere")


def test_a_missing_shard_or_damaged_index_is_named(folder: Path) -> None:
    shard(folder)
    (folder / "model-1.safetensors").unlink()
    with pytest.raises(BadModel, match=r"1 of 3 shards are missing: model-1\.safetensors"):
        open_checkpoint(folder)
    edit(folder / INDEX, {"weight_map": [1]})
    with pytest.raises(BadModel, match="'weight_map' must map"):
        open_checkpoint(folder)


def test_every_cut_is_noticed(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for cut in [*range(0, 3000, 61), *range(3000, len(whole), 9973), len(whole) - 1]:
        path.unlink()
        path.write_bytes(whole[:cut])
        with pytest.raises(BadModel, match=r"model\.safetensors"):
            open_checkpoint(folder)


def test_random_damage_is_noticed_or_harmless(folder: Path) -> None:
    path = folder / "model.safetensors"
    whole, random = np.fromfile(path, np.uint8), np.random.default_rng(3)
    refused = 0
    for _ in range(300):
        damaged = whole.copy()
        places = random.integers(0, 2400, random.integers(1, 4))
        damaged[places] = random.integers(0, 256, places.size)
        path.unlink()
        path.write_bytes(damaged.tobytes())
        try:
            checkpoint = open_checkpoint(folder)
            for name in checkpoint.names():
                checkpoint.tensor(name)
        except BadModel:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ({"dtype": "F8_E4M3", "shape": [64], "data_offsets": [0, 64]}, "stored as F8_E4M3"),
        ({"dtype": "F32", "shape": [64], "data_offsets": [0, 255]}, "do not fit F32"),
        ({"dtype": "F32", "shape": [-64, -1], "data_offsets": [0, 256]}, "do not fit"),
        ({"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}, "do not fit"),
        ({"dtype": "F32", "shape": [2**62], "data_offsets": [0, 2**64]}, "cut off"),
        ({"dtype": "F32", "shape": "64", "data_offsets": [0, 256]}, "expected a list"),
        ({"shape": [64], "data_offsets": [0, 256]}, "'dtype' is missing"),
        ("nothing", "'dtype' is missing"),
    ],
)
def test_odd_header_entries_are_named(entry: object, named: str, folder: Path) -> None:
    text = json.dumps({"model.norm.weight": entry}).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(256))
    with pytest.raises(BadModel, match=named):
        open_checkpoint(folder)

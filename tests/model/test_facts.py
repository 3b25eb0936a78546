"""read_facts: a model's numbers from its files; what cannot run says why and shows the rest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pilotfish.errors import BadModel
from pilotfish.model.bandwidth import bandwidth
from pilotfish.model.facts import read_facts
from pilotfish.model.openvino.forms import FORMS
from pilotfish.model.openvino.held import Held
from pilotfish.model.weights import open_checkpoint
from tests.fixtures.tiny_gguf import TOKENS, Kind, write_gguf

FIXTURES = Path(__file__).parents[1] / "fixtures"
TINY = FIXTURES / "tiny_llama"
SIZES = {
    "layers": 2,
    "hidden": 64,
    "intermediate": 96,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "context": 256,
    "vocab": 512,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the tiny model that may be changed."""
    return Path(shutil.copytree(TINY, tmp_path / "model"))


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_folder() -> None:
    facts = read_facts(str(TINY))
    assert facts.problems == [] and facts.checkpoint is not None
    assert (facts.name, facts.architecture) == ("tiny_llama", "llama")
    stored = sum(entry.bytes for entry in facts.checkpoint.entries.values())
    assert facts.numbers == SIZES | {"parameters": stored // 4}
    assert facts.formats == {"F32": (21, stored)} and facts.bytes == stored
    assert facts.tokenizer == {
        "kind": "BPE",
        "size": 512,
        "chat_template": True,
        "eos_ids": [2],
        "bos_id": 1,
        "adds_bos": False,
    }


def test_a_gguf(tmp_path: Path) -> None:
    facts = read_facts(str(write_gguf(tmp_path / "t.gguf", kind=Kind.Q8_0)))
    assert facts.problems == []
    assert (facts.name, facts.architecture, facts.numbers["vocab"]) == ("tiny", "llama", len(TOKENS))
    assert {kind: count for kind, (count, _) in facts.formats.items()} == {"Q8_0": 8, "F32": 3}
    assert facts.tokenizer["kind"] == "gpt2/smollm" and facts.tokenizer["eos_ids"] == [2]


def test_an_unknown_architecture_shows_what_its_files_say(folder: Path, tmp_path: Path) -> None:
    change(folder / "config.json", model_type="mamba")
    facts = read_facts(str(folder))
    assert facts.checkpoint is None and "the architecture is 'mamba'" in facts.problems[0]
    assert facts.numbers.items() >= SIZES.items() and facts.formats["F32"][0] == 21
    assert facts.tokenizer == {"kind": "BPE", "size": 512, "chat_template": True}

    (folder / "model.safetensors").unlink()  # as the hub's models come that do not run
    facts = read_facts(str(folder))
    assert len(facts.problems) == 1 and facts.formats == {} and facts.numbers["parameters"] is None

    path = write_gguf(tmp_path / "t.gguf", metadata={"general.architecture": "mamba", "mamba.block_count": 7})
    facts = read_facts(str(path))
    assert "the architecture is 'mamba'" in facts.problems[0]
    assert (facts.numbers["layers"], facts.numbers["hidden"]) == (7, None)
    assert facts.tokenizer == {"kind": "gpt2/smollm", "size": len(TOKENS), "chat_template": True}
    assert facts.numbers["parameters"] == sum(size for _, size in facts.formats.values()) // 4


def test_what_is_not_built_is_a_reason(folder: Path) -> None:
    change(folder / "config.json", rope_parameters={"rope_type": "longrope", "factor": 4.0})
    facts = read_facts(str(folder))
    assert "asks for 'longrope'" in facts.problems[0] and facts.numbers["layers"] == 2


def test_an_unsupported_tokenizer_is_a_reason(folder: Path, tmp_path: Path) -> None:
    change(folder / "tokenizer.json", model={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0})
    facts = read_facts(str(folder))
    assert facts.checkpoint is not None and facts.tokenizer["kind"] == "Unigram"
    assert len(facts.problems) == 1 and "'Unigram'" in facts.problems[0]
    (folder / "tokenizer.json").unlink()
    facts = read_facts(str(folder))
    assert "tokenizer.json" in facts.problems[0] and facts.tokenizer["kind"] is None

    facts = read_facts(str(write_gguf(tmp_path / "t.gguf", metadata={"tokenizer.ggml.model": "bert"})))
    assert "'bert'" in facts.problems[0] and facts.tokenizer["kind"] == "bert/smollm"


def test_damage_is_an_error(folder: Path, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "t.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadModel, match="the file is cut off"):
        read_facts(str(path))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(BadModel, match="the file is cut off"):
        read_facts(str(folder))
    weights.unlink()
    with pytest.raises(BadModel, match=r"neither model\.safetensors nor"):
        read_facts(str(folder))
    (folder / "config.json").write_text("{")
    with pytest.raises(BadModel, match="not readable as JSON"):
        read_facts(str(folder))


def test_a_model_in_the_hubs_cache_has_its_hub_name(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--tiny" / "snapshots" / ("0" * 40)
    shutil.copytree(TINY, snapshot)
    facts = read_facts(str(snapshot))
    assert facts.name == "org/tiny"
    assert facts.checkpoint is not None and facts.checkpoint.config.name == "org/tiny"


# What running would cost.


@pytest.mark.parametrize("form", FORMS)
def test_held_weights_by_form(form: str) -> None:
    checkpoint = open_checkpoint(TINY)
    matrices = sum(entry.bytes // 4 for entry in checkpoint.entries.values() if len(entry.shape) == 2)
    norms = sum(entry.bytes for entry in checkpoint.entries.values() if len(entry.shape) == 1)
    held = Held.of(checkpoint, form)
    if form in ("stored", "f32"):
        assert held.mapped == 4 * matrices + norms
    if form == "int8":  # a byte a value, and a float32 scale for 32 of them
        assert held.mapped == matrices * 36 // 32 + norms
    assert held.memory == held.mapped + held.read
    assert held.mapped - held.read == round((held.mapped - norms) * 512 * 64 / matrices)


def test_packed_kinds_stay_packed_and_a_tied_embedding_is_held_twice(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "t.gguf", kind=Kind.Q8_0))
    values = sum(entry.shape[0] * entry.shape[1] for entry in checkpoint.entries.values() if entry.shape[1:])
    held = Held.of(checkpoint, "stored")
    assert held.read == values * 36 // 32 + 3 * 64 * 4
    assert held.mapped - held.read == len(TOKENS) * 64 * 36 // 32


def test_bandwidth_is_a_speed() -> None:
    assert 1e8 < bandwidth(1) < 1e13

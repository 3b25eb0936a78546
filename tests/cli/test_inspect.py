"""`pilotfish inspect`: a readable report, one JSON object, reasons and exit statuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pilotfish.cli import inspect
from pilotfish.model.load import ModelOptions
from pilotfish.model.openvino.runner import OpenVINORunner
from tests.cli.conftest import Run

TINY = Path(__file__).parents[1] / "fixtures" / "tiny_llama"


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model, of which this machine knows nothing yet."""
    monkeypatch.setenv("PILOTFISH_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


def change(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_nothing_is_loaded_and_nothing_claimed(
    tiny: Path, refused: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile_(*_: object) -> None:
        raise AssertionError("a model was compiled")

    monkeypatch.setattr(OpenVINORunner, "__init__", compile_)
    ran = refused("inspect", str(tiny), "--cache-tokens", "1000")
    assert ran.status == 0
    assert "not measured yet; --measure does it" in ran.out
    assert "ms for a few rows (estimate: the weights once at the" in ran.out
    fields = refused("inspect", str(tiny), "--cache-tokens", "1000", "--json").fields
    assert (fields["exactness"], fields["proof"], fields["step_ms_by_rows"]) == (None, None, None)
    assert (fields["architecture"], fields["layers"], fields["heads"], fields["kv_heads"]) == (
        "llama",
        2,
        4,
        2,
    )
    assert (fields["weights"], fields["activations"], fields["runs"]) == ("stored", "f32", True)
    assert fields["kv_bytes_per_token"] == 2 * 2 * 2 * 16 * 4  # keys and values, layers, heads, width, f32
    memory = fields["memory_estimate"]
    embedding, stored = 512 * 64 * 4, fields["bytes"]
    assert memory == {
        "weights_bytes": 2 * stored - embedding,  # type: ignore[operator]
        "mapped_bytes": stored,
        "cache_tokens": 1000,
        "cache_bytes": 512_000,
    }
    estimate, rate = fields["step_ms_estimate"], fields["bandwidth_bytes_per_second"]
    assert isinstance(estimate, float) and isinstance(rate, int) and rate > 1e8


def test_forms_follow_the_flags(tiny: Path, refused: Run) -> None:
    fields = refused("inspect", str(tiny), "--weights", "int8", "--json").fields
    assert (fields["weights"], fields["activations"]) == ("int8", "int8")
    assert fields["memory_estimate"]["mapped_bytes"] < fields["bytes"]  # type: ignore[index, operator]


def test_measured_once_is_known_afterwards(tiny: Path, refused: Run) -> None:
    measured = refused("inspect", str(tiny), "--measure", "--json").fields
    assert measured["exactness"] in ("bitwise", "numeric") and measured["step_ms_estimate"] is None
    assert measured["proof"]["compared"] > 100  # type: ignore[index]
    known = refused("inspect", str(tiny), "--json").fields
    assert known == measured
    shown = refused("inspect", str(tiny)).out
    assert "rows had the same bits in the self-check" in shown and "measured, ms by rows: " in shown


def test_a_loaded_model_tells_of_itself(run: Run) -> None:
    fields = run("inspect", "embedded", "--measure", "--json").fields
    assert fields["name"] and fields["step_ms_by_rows"] and fields["exactness"]
    assert fields["tokenizer"]["chat_template"] is True  # type: ignore[index]


def test_what_cannot_run_says_why_and_shows_the_rest(tiny: Path, refused: Run) -> None:
    change(tiny / "config.json", model_type="mamba")
    ran = refused("inspect", str(tiny), "--measure")
    assert ran.status == 1 and ran.err == ""
    assert ran.out.startswith("tiny (mamba)\n") and "2, 64 wide" in ran.out
    assert "cannot run: " in ran.out and "the architecture is 'mamba'" in ran.out.splitlines()[-1]
    ran = refused("inspect", str(tiny), "--json")
    assert ran.status == 1 and ran.fields["runs"] is False and ran.fields["layers"] == 2
    assert ran.fields.keys() >= set(inspect._COSTS) and ran.fields["memory_estimate"] is None


def test_an_unsupported_tokenizer(tiny: Path, refused: Run) -> None:
    change(tiny / "tokenizer.json", model={"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": 0})
    ran = refused("inspect", str(tiny))
    assert ran.status == 1 and "Unigram" in ran.out and "bytes a token" in ran.out


def test_damage_is_one_line(tiny: Path, refused: Run) -> None:
    weights = tiny / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    for argv in (["inspect", str(tiny)], ["inspect", str(tiny), "--json"]):
        ran = refused(*argv)
        assert (ran.status, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "pilotfish: error: " in ran.err


def test_wrong_flags(refused: Run) -> None:
    assert refused("inspect", "embedded", "--weights", "int7").status == 2
    assert refused("inspect", "a", "b").status == 2


def test_the_default_is_the_embedded_model() -> None:
    args = inspect.parser().parse_args([])
    assert not hasattr(args, "target") and ModelOptions().target == "embedded"


def test_json_stands_alone_on_stdout(tiny: Path) -> None:
    argv = [sys.executable, "-m", "pilotfish", "inspect", str(tiny), "--json"]
    ran = subprocess.run(argv, capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr == ""
    assert json.loads(ran.stdout)["layers"] == 2 and ran.stdout.count("\n") == 1

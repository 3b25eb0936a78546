"""The cache folder's graphs: made once, read from a mapped file, mended when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pilotfish.model.openvino.memory import exact_allocations, giving_back
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.openvino.store import StoredDecoder, stored_decoder
from pilotfish.model.runner import Slice
from pilotfish.model.weights import Checkpoint, open_checkpoint
from pilotfish.model.weights.mapped import give_back, map_file

FIXTURE = Path(__file__).parents[1] / "fixtures" / "tiny_llama"


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkpoint:
    monkeypatch.setenv("PILOTFISH_CACHE", str(tmp_path))
    return open_checkpoint(FIXTURE)


def rows(checkpoint: Checkpoint, stored: StoredDecoder) -> np.ndarray:
    runtime = RuntimeConfig(threads=1, cache_tokens=256)
    runner = OpenVINORunner(stored, checkpoint.config, runtime)
    assert stored.mapped is None or runner.weight_bytes == stored.mapped.nbytes
    return runner.forward([Slice([3, 1, 4, 1, 5, 9], 0, [2], range(6))]).logits[0].copy()


@pytest.mark.parametrize("form", ["stored", "int4"])
def test_every_start_gives_the_same_bits(checkpoint: Checkpoint, tmp_path: Path, form: str) -> None:
    with exact_allocations():
        first = rows(checkpoint, stored_decoder(checkpoint, form))
    [graph] = tmp_path.glob("graphs/*.xml")
    made = graph.stat().st_mtime_ns
    assert np.array_equal(rows(checkpoint, stored_decoder(checkpoint, form)), first)
    assert graph.stat().st_mtime_ns == made  # read, not built again


@pytest.mark.parametrize("suffix", [".xml", ".bin"])
def test_a_damaged_graph_is_made_again(checkpoint: Checkpoint, tmp_path: Path, suffix: str) -> None:
    first = rows(checkpoint, stored_decoder(checkpoint, "int8"))
    [file] = tmp_path.glob(f"graphs/*{suffix}")
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b""):
        file.write_bytes(damaged)
        assert np.array_equal(rows(checkpoint, stored_decoder(checkpoint, "int8")), first)
        # Whole again; the names in an .xml are numbered anew.
        assert file.stat().st_size == pytest.approx(len(whole), rel=0.01)


def test_a_folder_that_cannot_be_written(checkpoint: Checkpoint, tmp_path: Path) -> None:
    first = rows(checkpoint, stored_decoder(checkpoint, "int8"))
    for file in tmp_path.glob("graphs/*"):
        file.unlink()
    (tmp_path / "graphs").rmdir()
    (tmp_path / "graphs").write_text("a file in the way")
    stored = stored_decoder(checkpoint, "int8")
    assert stored.mapped is None
    assert np.array_equal(rows(checkpoint, stored), first)


@pytest.mark.parametrize("mode", ["r", "c"])
def test_given_back_pages_keep_their_bytes(tmp_path: Path, mode: str) -> None:
    values = np.random.default_rng(1).integers(0, 256, 1 << 20, np.uint8)
    (tmp_path / "file").write_bytes(values.tobytes())
    mapped = map_file(tmp_path / "file", mode=mode)
    with giving_back(mapped):
        assert np.array_equal(mapped, values)
    give_back(mapped)
    give_back(mapped[100:])  # a part is no whole map: nothing is done, nothing fails
    assert np.array_equal(mapped, values)

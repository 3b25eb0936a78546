"""Every family of models gives transformers' logits, from its folder and from a GGUF file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pilotfish.model.architectures import ARCHITECTURES
from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig, block_tables
from pilotfish.model.runner import Slice
from pilotfish.model.weights import Checkpoint, open_checkpoint
from tests.fixtures.family_gguf import write_family_gguf

FAMILIES = Path(__file__).parents[1] / "fixtures" / "families"
CLOSE = 1e-3
IN_GGUF = [family for family, row in ARCHITECTURES.items() if row.gguf_name]


def logits(checkpoint: Checkpoint, family: str, sizes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Ours, computed in chunks of these sizes, and transformers'."""
    runtime = RuntimeConfig(threads=1, cache_tokens=512)
    runner = OpenVINORunner(decoder(checkpoint, "stored"), checkpoint.config, runtime)
    expected = np.load(FAMILIES / family / "expected.npz")
    tokens, rows, start = [int(token) for token in expected["tokens"]], [], 0
    for size in sizes:
        part = Slice(tokens[start : start + size], start, [4, 9], range(size))
        rows.append(runner.forward([part]).logits[0].copy())
        start += size
    assert start == len(tokens)
    return np.concatenate(rows), expected["logits"]


def test_every_family_has_a_fixture() -> None:
    assert {folder.name for folder in FAMILIES.iterdir()} == set(ARCHITECTURES)


@pytest.mark.parametrize("sizes", [(48,), (5, 1, 2, 23, 17)], ids=["whole", "chunks"])
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_a_folder(family: str, sizes: tuple[int, ...]) -> None:
    ours, expected = logits(open_checkpoint(FAMILIES / family), family, sizes)
    assert np.abs(expected).max() > 1 and np.abs(ours - expected).max() < CLOSE


@pytest.mark.parametrize("family", IN_GGUF)
def test_a_gguf(family: str, tmp_path: Path) -> None:
    path = write_family_gguf(open_checkpoint(FAMILIES / family), tmp_path / "model.gguf")
    checkpoint = open_checkpoint(path)
    if family == "gemma3_text":  # its scale differs from what the heads' width gives, which no GGUF says
        scale = open_checkpoint(FAMILIES / family).config.attention_scale
        checkpoint = replace(checkpoint, config=replace(checkpoint.config, attention_scale=scale))
    ours, expected = logits(checkpoint, family, (48,))
    assert np.abs(ours - expected).max() < CLOSE


@pytest.mark.parametrize("family", ["mistral", "gemma3_text"])
def test_windows_are_seen_by_the_numbers(family: str) -> None:
    checkpoint = open_checkpoint(FAMILIES / family)
    config = checkpoint.config
    assert any(config.windows)
    without = replace(checkpoint, config=replace(config, windows=(None,) * config.layers))
    ours, expected = logits(without, family, (48,))
    assert np.abs(ours[:8] - expected[:8]).max() < CLOSE  # inside the first window nothing changes
    assert np.abs(ours[20:] - expected[20:]).max() > 10 * CLOSE


def test_what_other_uses_need_is_carried_along() -> None:
    checkpoint = open_checkpoint(FAMILIES / "mimo")
    assert "model.mtp_layers.0.input_proj.weight" in checkpoint.entries
    assert "model.mtp_layers.0.input_proj.weight" not in checkpoint.names()
    assert checkpoint.tensor("model.mtp_layers.0.input_proj.weight").shape == (32, 64)


def test_norms_have_their_offset_back() -> None:
    checkpoint = open_checkpoint(FAMILIES / "gemma3_text")
    assert checkpoint.tensor("model.norm.weight").to_float32().mean() == pytest.approx(1.0, abs=0.2)


def test_blocks_that_no_window_reaches_are_not_shown() -> None:
    """Layers with a window get block tables without the blocks behind it, and give the same numbers."""
    checkpoint = open_checkpoint(FAMILIES / "mistral")
    assert set(checkpoint.config.windows) == {12}
    late = Slice([0] * 24, 76, [5, 2, 8, 1], range(24))
    # The window of position 76 begins at 65, in the third block.
    tables = block_tables([late, Slice([0] * 3, 0, [9], range(3))], window=12)
    assert tables["block_indices"].tolist() == [8, 1, 9]
    assert tables["block_indices_begins"].tolist() == [0, 2, 3]
    assert tables["past_lens"].tolist() == [12, 0] and tables["max_context_len"] == 36

    tokens = [int(token) for token in np.load(FAMILIES / "mistral" / "expected.npz")["tokens"]] * 3
    runner = OpenVINORunner(decoder(checkpoint, "stored"), checkpoint.config, RuntimeConfig(cache_tokens=512))
    whole = runner.forward([Slice(tokens[:100], 0, [0, 3, 6, 4], range(100))]).logits[0][76:].copy()
    runner.forward([Slice(tokens[:76], 0, [5, 2, 8, 1], range(0))])
    runner.copy_block(0, 5)
    runner.copy_block(0, 2)  # no token that is still seen lies there
    rows = runner.forward([Slice(tokens[76:100], 76, [5, 2, 8, 1], range(24))]).logits[0]
    assert np.abs(whole - rows).max() < CLOSE

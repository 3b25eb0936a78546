"""What passes cost: which are measured, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pilotfish.bench import steps
from pilotfish.bench.steps import Shape, Step, shapes, step_grid, steps_table
from pilotfish.cli import main
from pilotfish.llm import LLM
from pilotfish.model.load import ModelOptions, load


def test_shapes_keep_to_the_form_and_the_context(embedded_llm: LLM) -> None:
    target = embedded_llm.target
    found = shapes(target)
    assert len(set(found)) == len(found) >= 9
    for shape in found:
        assert target.form.min_tokens <= shape.rows
        assert shape.rows * shape.sequences <= target.form.max_rows
        assert shape.context + shape.rows <= target.runner.context
    assert {shape.context for shape in found} == {256, 1024, 4096}


def test_a_small_context_is_measured_halfway() -> None:
    folder = str(Path(__file__).parents[1] / "fixtures" / "tiny_llama")
    target = load(ModelOptions(target=folder, cache_tokens=64), lasting=False)
    assert target.runner.context == 256
    size, found = target.runner.block_size, shapes(target)
    assert {shape.context for shape in found} == {128}
    for shape in found:
        used = [block for part in shape.batch(size) for block in part.blocks]
        assert max(used) < target.runner.blocks
    assert len({shape.rows for shape in found}) >= 5


def test_every_sequence_has_blocks_of_its_own() -> None:
    batch = Shape(rows=3, sequences=4, context=62).batch(32)
    blocks = [block for part in batch for block in part.blocks]
    assert len(batch) == 4 and len(set(blocks)) == len(blocks) == 4 * 3
    assert all(part.start == 62 and len(part.tokens) == 3 for part in batch)


def test_a_short_measurement(
    embedded_llm: LLM, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("ROWS", (2, 4)), ("SEQUENCES", (1, 2)), ("CONTEXTS", (64,)), ("_REPEATS", 2)):
        monkeypatch.setattr(steps, name, value)
    found = step_grid(embedded_llm.target)
    assert [(step.shape.rows, step.shape.sequences) for step in found] == [(2, 1), (4, 1), (2, 2)]
    weights = found[0].bytes - 64 * embedded_llm.target.checkpoint.config.kv_bytes_per_token(4)
    assert 130e6 < weights < 170e6  # int8 of 134.5 million, and their scales
    assert all(step.seconds > 0 and step.general_seconds > 0 and step.switched > 0 for step in found)
    assert main(["bench", "--steps", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 3


def test_the_table_names_shares_of_bandwidth() -> None:
    shape = Shape(rows=2, sequences=1, context=256)
    step = Step(shape=shape, seconds=0.01, general_seconds=0.012, switched=0.018, bytes=100_000_000)
    lines = steps_table([step], bandwidth=20e9).splitlines()
    assert lines[1].split() == ["2", "1", "256", "10.0", "12.0", "18.0", "0.100", "50%"]
    assert lines[-1] == "bandwidth: 20.0 GB/s (reading and writing)"


@pytest.mark.parametrize("report", ["--steps", "--profile", "--perplexity"])
@pytest.mark.parametrize(
    "more", [("--limit", "1"), ("--draft", "ngram"), ("--repeat", "2"), ("--first-turn",)]
)
def test_what_a_report_would_ignore_is_refused(
    report: str, more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", report, *more]) == 2
    assert f"{more[0]} has no meaning with {report}" in capsys.readouterr().err

"""The decoder graph against transformers, on tiny random-weight models of every family."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf.constants import GGMLQuantizationType as Kind
from transformers import AutoModelForCausalLM

from pilotfish.model.architectures import ARCHITECTURES
from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.runner import Slice
from pilotfish.model.selfcheck import prove
from pilotfish.model.weights import Checkpoint, open_checkpoint
from tests.fixtures.family_gguf import write_family_gguf
from tests.parity.families import CASES, LENGTH, Pair, build, text

CLOSE = 1e-3
GGUF_CASES = [
    "llama",
    "llama 3 (scaled rope)",
    "llama, biases",
    "llama, linear rope",
    "llama, yarn",
    "mistral as llama",
    "qwen2",
    "qwen3",
    "smollm3",
    "gemma3, scale as released",
]
# What transformers reads of GGUF files; it knows no SmolLM3, no divisors and no scaling in them.
# (It takes heads of 128 for granted in Qwen3, and Gemma 3's scale.)
READ_BY_TRANSFORMERS = ["llama", "qwen2", "qwen3, heads of 128", "gemma3, scale as released"]


def runner_of(checkpoint: Checkpoint, form: str = "stored") -> OpenVINORunner:
    runtime = RuntimeConfig(activations="f32", cache_tokens=2048)
    return OpenVINORunner(decoder(checkpoint, form), checkpoint.config, runtime)


def logits_of(checkpoint: Checkpoint, form: str = "stored") -> np.ndarray:
    part = Slice(text(5, LENGTH), 0, list(range(5)), range(LENGTH))
    return np.array(runner_of(checkpoint, form).forward([part]).logits[0])


def test_every_family_is_covered() -> None:
    names = {case.replace(" as ", ", ").split(",")[0].split(" ")[0] for case in CASES}
    assert names == {family.removesuffix("_text") for family in ARCHITECTURES}


@pytest.mark.parametrize("case", CASES)
def test_logits_and_features(case: str, tmp_path: Path) -> None:
    """Whole prompts, odd chunks and ragged batches give transformers' logits within 1e-3."""
    pair = build(case, tmp_path)
    assert pair.error() < CLOSE
    tokens = text(5, LENGTH)
    with torch.no_grad():
        hidden = pair.reference(torch.tensor([tokens]), output_hidden_states=True).hidden_states[1][0].numpy()
    whole = pair.runner.forward([Slice(tokens, 0, list(range(5)), range(LENGTH))])
    np.testing.assert_allclose(whole.features[0][0], hidden, atol=CLOSE)


@pytest.mark.parametrize("case", ["llama 3 (scaled rope)", "mistral, window 24", "smollm3", "gemma3", "mimo"])
def test_rows_are_bit_identical(case: str, tmp_path: Path) -> None:
    """The start-up self-check proves the two-token form for windows, bare layers and all else."""
    proof = prove(build(case, tmp_path).runner)
    assert proof.form.bitwise and proof.differing == 0 and proof.compared > 100, str(proof)


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        ("mistral, window 24", {"windows": (None,) * 3}),
        ("qwen2, window 40 on the last layers", {"windows": (40,) * 3}),
        ("gemma3", {"windows": (None,) * 7}),
        ("gemma3", {"attention_scale": None}),
        ("gemma3", {"activation": "silu"}),
        ("smollm3", {"rotaries": None}),
        ("llama 3 (scaled rope)", {"rotaries": None}),
    ],
)
def test_a_wrong_trait_would_be_seen(case: str, wrong: dict[str, object], tmp_path: Path) -> None:
    pair = build(case, tmp_path)
    config = pair.checkpoint.config
    if wrong == {"rotaries": None}:
        first = next(rotary for rotary in config.rotaries if rotary)
        wrong = {"rotaries": (replace(first, kind="default"),) * config.layers}
    mistaken = replace(pair.checkpoint, config=replace(config, **wrong))  # type: ignore[arg-type]
    assert np.abs(logits_of(mistaken) - pair.expected(text(5, LENGTH))).max() > 10 * CLOSE


@pytest.fixture(params=GGUF_CASES)
def converted(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Pair, Path]:
    """A random model, and the same as a GGUF file."""
    case = "mistral" if request.param == "mistral as llama" else request.param
    pair = build(case, tmp_path / "folder")
    source = pair.checkpoint
    if case == "mistral":
        source = replace(source, config=replace(source.config, architecture="llama"))
    return pair, write_family_gguf(source, tmp_path / "model.gguf")


def test_a_gguf_gives_the_same_logits(converted: tuple[Pair, Path]) -> None:
    pair, path = converted
    assert np.abs(logits_of(open_checkpoint(path)) - pair.expected(text(5, LENGTH))).max() < CLOSE


@pytest.mark.parametrize("case", READ_BY_TRANSFORMERS)
def test_transformers_reads_the_same_from_a_gguf(case: str, tmp_path: Path) -> None:
    """Not only our own reading of our own writing: transformers' reading of the file agrees."""
    path = write_family_gguf(build(case, tmp_path / "folder").checkpoint, tmp_path / "model.gguf", Kind.Q8_0)
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file=path.name, dtype=torch.float32).eval()
    with torch.no_grad():
        expected = theirs(torch.tensor([text(5, LENGTH)])).logits[0].numpy()
    assert np.abs(expected).max() > 1
    assert np.abs(logits_of(open_checkpoint(path)) - expected).max() < CLOSE

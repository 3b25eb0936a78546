"""The decoder graph against transformers, on tiny Llama checkpoints with random weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.runner import Slice
from pilotfish.model.weights import open_checkpoint

SHAPES = [
    dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2),
    dict(hidden_size=96, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=6),
    dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=32),
    dict(
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    ),
    dict(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, rope_theta=500000.0
    ),
]
LENGTH = 150  # tokens: several cache blocks


@pytest.fixture(params=range(len(SHAPES)), ids=lambda index: f"shape{index}")
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LlamaForCausalLM, OpenVINORunner]:
    """A random model in both implementations."""
    torch.manual_seed(request.param)
    fields = dict(vocab_size=300, intermediate_size=160, max_position_embeddings=256, rms_norm_eps=1e-5)
    model = LlamaForCausalLM(LlamaConfig(**(fields | SHAPES[request.param]))).eval().float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.add_(torch.randn_like(weight) * (0.2 if "norm" in name else 0.08))
    model.save_pretrained(tmp_path, safe_serialization=True)
    checkpoint = open_checkpoint(tmp_path)
    runtime = RuntimeConfig(activations="f32", cache_tokens=2048, taps=(0,))
    return model, OpenVINORunner(decoder(checkpoint, "f32"), checkpoint.config, runtime)


def test_logits_and_features(pair: tuple[LlamaForCausalLM, OpenVINORunner]) -> None:
    """Whole prompts, odd chunks and ragged batches give transformers' logits within 1e-3."""
    model, runner = pair
    text = np.random.default_rng(5).integers(0, 300, LENGTH).tolist()
    with torch.no_grad():
        reference = model(torch.tensor([text]), output_hidden_states=True)
    expected = reference.logits[0].numpy()
    assert np.abs(expected).max() > 1  # a check on nothing would pass

    whole = runner.forward([Slice(text, 0, list(range(5)), range(LENGTH))])
    np.testing.assert_allclose(whole.logits[0], expected, atol=1e-3)
    if model.config.num_hidden_layers > 1:  # transformers norms the last layer's output
        np.testing.assert_allclose(whole.features[0][0], reference.hidden_states[1][0].numpy(), atol=1e-3)

    start, table = 0, [20, 7, 9, 30, 11]
    for width in (7, 1, 2, 31, 33, 64, 12):
        rows = runner.forward([Slice(text[start : start + width], start, table, range(width))]).logits[0]
        np.testing.assert_allclose(rows, expected[start : start + width], atol=1e-3)
        start += width
    assert start == LENGTH


def test_ragged_batch(pair: tuple[LlamaForCausalLM, OpenVINORunner]) -> None:
    """Three unlike sequences in one pass, at different contexts."""
    model, runner = pair
    random = np.random.default_rng(6)
    texts = [random.integers(0, 300, length).tolist() for length in (9, 70, 130)]
    tables = [[1], [2, 3, 4], [9, 8, 7, 6, 5]]
    for text, table in zip(texts[1:], tables[1:], strict=True):
        runner.forward([Slice(text[:-4], 0, table, range(0))])
    starts = [0, 66, 126]
    batch = [
        Slice(text[start:], start, table, range(len(text) - start))
        for text, start, table in zip(texts, starts, tables, strict=True)
    ]
    output = runner.forward(batch)
    for text, start, rows in zip(texts, starts, output.logits, strict=True):
        with torch.no_grad():
            expected = model(torch.tensor([text])).logits[0].numpy()
        np.testing.assert_allclose(rows, expected[start:], atol=1e-3)

"""Weights equal to what transformers loads, for GGUF and for a folder; the tiny fixture's logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from pilotfish.model.weights import embedded_path, open_checkpoint

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_the_embedded_model() -> None:
    path = embedded_path()
    theirs = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    state, ours = theirs.state_dict(), open_checkpoint(path)
    for name in ours.names():
        expected, found = state[name].numpy(), ours.tensor(name).to_float32()
        assert np.abs(found - expected).max() <= 2.0**-23 * np.abs(expected).max(), name
    config = theirs.config
    assert (ours.config.layers, ours.config.heads) == (config.num_hidden_layers, config.num_attention_heads)
    assert ours.config.rms_eps == pytest.approx(config.rms_norm_eps)
    assert {rotary.theta for rotary in ours.config.rotaries if rotary} == {
        config.rope_parameters["rope_theta"]
    }
    assert ours.config.parameters == theirs.num_parameters()


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_llama_tied"])
def test_the_tiny_folders(name: str) -> None:
    folder = FIXTURES / name
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    state, ours = theirs.state_dict(), open_checkpoint(folder)
    for tensor in ours.names():
        assert np.array_equal(ours.tensor(tensor).to_float32(), state[tensor].numpy()), tensor
    expected = np.load(folder / "expected.npz")
    with torch.no_grad():
        logits = theirs(torch.tensor(expected["tokens"])[None]).logits[0].numpy()
    assert np.abs(logits - expected["logits"]).max() < 1e-4

"""Tiny random-weight models of every family, in transformers and in pilotfish.

    pair = build("gemma3_text", folder)
    pair.error()        # largest difference of a logit: whole prompt, odd chunks, ragged batch

Prompts are longer than any window. Needs torch and transformers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as hf
from safetensors.torch import load_file, save_file

from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.runner import Slice
from pilotfish.model.weights import Checkpoint, open_checkpoint

VOCAB, LENGTH = 300, 150  # tokens of a prompt: several cache blocks
SIZES = dict(
    vocab_size=VOCAB,
    hidden_size=64,
    intermediate_size=96,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_hidden_layers=3,
    max_position_embeddings=256,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=500_000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=64,
)
YARN = dict(rope_type="yarn", rope_theta=10_000.0, factor=4.0, original_max_position_embeddings=64)
LINEAR = dict(rope_type="linear", rope_theta=10_000.0, factor=2.0)
PLAIN = dict(rope_type="default", rope_theta=10_000.0)
SLIDING, FULL = "sliding_attention", "full_attention"

# case -> the family's class in transformers, and what the case adds to SIZES
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama, one key head, wide heads": ("Llama", dict(num_key_value_heads=1, head_dim=32)),
    "llama, tied": ("Llama", dict(tie_word_embeddings=True)),
    "llama 3 (scaled rope)": ("Llama", dict(rope_parameters=LLAMA3)),
    "llama, linear rope": ("Llama", dict(rope_parameters=LINEAR)),
    "llama, yarn": ("Llama", dict(rope_parameters=YARN)),
    "llama, biases": ("Llama", dict(attention_bias=True, mlp_bias=True)),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "mistral, window 24": ("Mistral", dict(sliding_window=24)),
    "qwen2": ("Qwen2", {}),
    "qwen2, window 40 on the last layers": (
        "Qwen2",
        dict(use_sliding_window=True, sliding_window=40, max_window_layers=1),
    ),
    "qwen2, yarn": ("Qwen2", dict(rope_parameters=YARN)),
    "qwen3": ("Qwen3", dict(head_dim=24)),
    "qwen3, heads of 128": ("Qwen3", dict(head_dim=128)),
    "qwen3, biases": ("Qwen3", dict(head_dim=16, attention_bias=True)),
    "smollm3": ("SmolLM3", dict(num_hidden_layers=5)),
    "smollm3, layers named": ("SmolLM3", dict(num_hidden_layers=4, no_rope_layers=[0, 1, 1, 0])),
    "gemma3": (
        "Gemma3Text",
        dict(num_hidden_layers=7, head_dim=32, sliding_window=20, query_pre_attn_scalar=24),
    ),
    "gemma3, scale as released": (
        "Gemma3Text",
        dict(num_hidden_layers=7, head_dim=256, sliding_window=20),
    ),
    "gemma3, linear rope": (
        "Gemma3Text",
        dict(
            num_hidden_layers=3,
            head_dim=32,
            sliding_window=33,
            query_pre_attn_scalar=32,
            layer_types=[SLIDING, FULL, SLIDING],
            rope_parameters={
                FULL: dict(rope_type="linear", factor=8.0, rope_theta=1e6),
                SLIDING: PLAIN,
            },
        ),
    ),
    "mimo": ("Qwen2", dict(head_dim=32)),
}
PREDICTION_LAYERS = "model.mtp_layers.0."


@dataclass
class Pair:
    """One random model in both implementations."""

    case: str
    reference: Any
    checkpoint: Checkpoint
    runner: OpenVINORunner

    def expected(self, tokens: list[int]) -> np.ndarray:
        """transformers' logits, [token, vocab] float32."""
        with torch.no_grad():
            logits: np.ndarray = self.reference(torch.tensor([tokens])).logits[0].numpy()
        return logits

    def error(self) -> float:
        """The largest difference of a logit over all ways of computing a prompt."""
        return max(self.whole(), self.chunked(), self.ragged())

    def whole(self) -> float:
        tokens = text(5, LENGTH)
        rows = self.runner.forward([Slice(tokens, 0, list(range(5)), range(LENGTH))]).logits[0]
        return _error(rows, self.expected(tokens))

    def chunked(self) -> float:
        tokens, start, table = text(5, LENGTH), 0, [20, 7, 9, 30, 11]
        expected, worst = self.expected(tokens), 0.0
        for width in (7, 1, 2, 31, 33, 64, 12):
            end = start + width
            rows = self.runner.forward([Slice(tokens[start:end], start, table, range(width))]).logits[0]
            worst, start = max(worst, _error(rows, expected[start:end])), end
        assert start == LENGTH
        return worst

    def ragged(self) -> float:
        """Three unlike sequences in one pass, at different contexts."""
        texts = [text(seed, length) for seed, length in ((6, 9), (7, 70), (8, 130))]
        tables = [[1], [2, 3, 4], [9, 8, 7, 6, 5]]
        for tokens, table in zip(texts[1:], tables[1:], strict=True):
            self.runner.forward([Slice(tokens[:-4], 0, table, range(0))])
        starts = [0, 66, 126]
        batch = [
            Slice(tokens[start:], start, table, range(len(tokens) - start))
            for tokens, start, table in zip(texts, starts, tables, strict=True)
        ]
        rows = [part.copy() for part in self.runner.forward(batch).logits]
        return max(
            _error(part, self.expected(tokens)[start:])
            for part, tokens, start in zip(rows, texts, starts, strict=True)
        )


def build(case: str, folder: Path, form: str = "f32") -> Pair:
    """Writes the case's random model to `folder` and reads it with both implementations."""
    name, changes = CASES[case]
    torch.manual_seed(sorted(CASES).index(case))
    config = getattr(hf, f"{name}Config")(**(SIZES | changes))
    model = getattr(hf, f"{name.removesuffix('Text')}ForCausalLM")(config).eval().float()
    with torch.no_grad():
        for parameter, weight in model.named_parameters():
            weight.add_(torch.randn_like(weight) * (0.2 if "norm" in parameter else 0.1))
    model.save_pretrained(folder)
    if case == "mimo":
        _rewrite_as_mimo(folder)
    checkpoint = open_checkpoint(folder)
    runtime = RuntimeConfig(activations="f32", cache_tokens=6144, taps=(0,))
    return Pair(
        case, model, checkpoint, OpenVINORunner(decoder(checkpoint, form), checkpoint.config, runtime)
    )


def _rewrite_as_mimo(folder: Path) -> None:
    """MiMo is Qwen2 under another name with prediction layers behind it, which are carried along."""
    path = folder / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"model_type": "mimo", "num_nextn_predict_layers": 1})
    )
    weights = folder / "model.safetensors"
    tensors = load_file(weights)
    tensors[PREDICTION_LAYERS + "input_proj.weight"] = torch.ones(64, 128)
    save_file(tensors, weights)


def text(seed: int, length: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, VOCAB, length)]


def _error(rows: np.ndarray, expected: np.ndarray) -> float:
    assert np.abs(expected).max() > 1, "a check on nothing would pass"
    return float(np.abs(rows - expected).max())

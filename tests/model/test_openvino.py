"""The OpenVINO graph and runner on tiny fixtures, against transformers' logits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pilotfish.model.openvino.compiled import core
from pilotfish.model.openvino.forms import FORMS, int8_groups
from pilotfish.model.openvino.graph import decoder, paged
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig, StoredDecoder
from pilotfish.model.runner import Slice
from pilotfish.model.weights import Checkpoint, open_checkpoint

FIXTURES = Path(__file__).parents[1] / "fixtures"
CLOSE = 1e-3
BLOCKS = 40


class Tiny:
    """One fixture: its runner and what transformers computes for its tokens."""

    def __init__(
        self, name: str, *, form: str = "stored", activations: str = "f32", taps: tuple[int, ...] = ()
    ) -> None:
        self.checkpoint: Checkpoint = open_checkpoint(FIXTURES / name)
        runtime = RuntimeConfig(activations=activations, threads=1, cache_tokens=32 * BLOCKS, taps=taps)
        self.runner = OpenVINORunner(decoder(self.checkpoint, form), self.checkpoint.config, runtime)
        expected = np.load(FIXTURES / name / "expected.npz")
        self.tokens = [int(token) for token in expected["tokens"]]
        self.logits = expected["logits"]

    def part(self, start: int, end: int, blocks: list[int], wanted: range | None = None) -> Slice:
        return Slice(self.tokens[start:end], start, blocks, range(end - start) if wanted is None else wanted)

    def run(self, *parts: Slice) -> list[np.ndarray]:
        return [rows.copy() for rows in self.runner.forward(parts).logits]


@pytest.fixture(scope="module", params=["tiny_llama", "tiny_llama_tied"])
def tiny(request: pytest.FixtureRequest) -> Tiny:
    return Tiny(request.param, taps=(0, 1))


def test_the_whole_prompt(tiny: Tiny) -> None:
    [rows] = tiny.run(tiny.part(0, 40, [3, 1]))
    assert rows.shape == (40, tiny.checkpoint.config.vocab) and rows.dtype == np.float32
    assert np.abs(rows - tiny.logits).max() < CLOSE


@pytest.mark.parametrize("sizes", [(1,), (7, 2, 13), (31, 3), (32, 8), (39, 1)])
def test_odd_chunks_and_single_rows(tiny: Tiny, sizes: tuple[int, ...]) -> None:
    start, turn, blocks = 0, 0, [5, 2]
    while start < 40:
        end = min(40, start + sizes[turn % len(sizes)])
        [rows] = tiny.run(tiny.part(start, end, blocks))
        assert np.abs(rows - tiny.logits[start:end]).max() < CLOSE
        start, turn = end, turn + 1


def test_a_ragged_batch_with_few_wanted_rows(tiny: Tiny) -> None:
    tiny.run(tiny.part(0, 33, [0, 7]), tiny.part(0, 10, [9]))
    first, second, third, none = tiny.run(
        tiny.part(33, 40, [0, 7], wanted=range(2, 5)),
        tiny.part(10, 11, [9]),
        tiny.part(0, 40, [11, 4], wanted=range(39, 40)),
        tiny.part(0, 5, [12], wanted=range(0)),
    )
    assert np.abs(first - tiny.logits[35:38]).max() < CLOSE
    assert np.abs(second - tiny.logits[10:11]).max() < CLOSE
    assert np.abs(third - tiny.logits[39:]).max() < CLOSE
    assert none.shape == (0, tiny.checkpoint.config.vocab)


def test_rejected_tokens_are_overwritten(tiny: Tiny) -> None:
    """Rollback is not advancing: junk after position 20 leaves no trace."""
    tiny.run(tiny.part(0, 20, [6, 8]))
    tiny.run(Slice([9, 9, 9, 9, 9], 20, [6, 8], range(0)))
    [rows] = tiny.run(tiny.part(20, 40, [6, 8]))
    assert np.abs(rows - tiny.logits[20:]).max() < CLOSE


def test_a_fork_has_its_own_tail(tiny: Tiny) -> None:
    tiny.run(tiny.part(0, 36, [1, 2]))
    tiny.runner.copy_block(2, 13)
    tiny.run(Slice([5, 6, 7], 36, [1, 2], range(0)))  # the parent goes elsewhere
    [rows] = tiny.run(tiny.part(36, 40, [1, 13]))
    assert np.abs(rows - tiny.logits[36:]).max() < CLOSE


def test_features_of_every_token(tiny: Tiny) -> None:
    output = tiny.runner.forward([tiny.part(0, 6, [0], wanted=range(0)), tiny.part(0, 9, [1])])
    hidden = tiny.checkpoint.config.hidden
    assert sorted(output.features) == [0, 1]
    for layer in (0, 1):
        assert [part.shape for part in output.features[layer]] == [(6, hidden), (9, hidden)]
        assert np.allclose(output.features[layer][0], output.features[layer][1][:6], atol=1e-4)
    assert not np.allclose(output.features[0][0], output.features[1][0], atol=1e-2)
    # The last layer's stream, normed and projected, is the logits.
    stream = output.features[1][1]
    norm = tiny.checkpoint.tensor("model.norm.weight").to_float32()
    tied = tiny.checkpoint.config.tied_embeddings
    head = tiny.checkpoint.tensor("model.embed_tokens.weight" if tied else "lm_head.weight").to_float32()
    normed = stream / np.sqrt((stream**2).mean(axis=1, keepdims=True) + tiny.checkpoint.config.rms_eps) * norm
    assert np.abs(normed @ head.T - tiny.logits[:9]).max() < CLOSE


@pytest.mark.parametrize("form", FORMS)
def test_weight_forms(form: str) -> None:
    tiny = Tiny("tiny_llama", form=form, activations="int8" if form.startswith("int") else "f32")
    [rows] = tiny.run(tiny.part(0, 40, [0, 1]))
    error = np.abs(rows - tiny.logits).max() / np.abs(tiny.logits).max()
    assert error < {"int8": 0.15, "int4": 0.5, "f16": 0.01}.get(form, 1e-3)
    if form in ("int8", "int4", "f16"):
        assert error > 1e-4  # it is really another form


def test_int8_groups_round_to_the_nearest() -> None:
    matrix = np.random.default_rng(2).normal(size=(6, 64)).astype(np.float32)
    matrix[3] = 0
    packed = int8_groups(matrix)
    scale = packed.scale.repeat(32, axis=1)
    assert np.abs(packed.codes * scale - matrix).max() <= scale.max() / 2 + 1e-6
    assert (packed.codes[3] == 0).all() and packed.group == 32
    assert int8_groups(matrix[:, :40]).group == 40


def test_rotary_positions_are_fused(tiny: Tiny) -> None:
    """The runtime recognises exactly one form of them; missing it costs a tenth of a small pass."""
    model = paged(decoder(tiny.checkpoint, "stored"), tiny.checkpoint.config, ())
    kinds = Counter(
        node.get_rt_info()["layerType"].value
        for node in core().compile_model(model, "CPU").get_runtime_model().get_ops()
    )
    assert kinds["RoPE"] == 2 * tiny.checkpoint.config.layers


@pytest.mark.parametrize("name", ["tiny_llama", "tiny_llama_tied"])
def test_graphs_of_their_own_give_the_same_bits(name: str) -> None:
    """Passes of one sequence and 2 or 5 rows go through other graphs, over the same cache."""
    general, fixed = Tiny(name, taps=(0,)), Tiny(name, taps=(0,))
    checkpoint = fixed.checkpoint
    fixed.runner.specialise(lambda: StoredDecoder(decoder(checkpoint, "stored")), (2, 5))
    assert fixed.runner.fixed_rows == (2, 5) and general.runner.fixed_rows == ()
    start, blocks = 0, [7, 3]
    for width in (5, 2, 9, 2, 2, 5, 10, 5):  # past a block's edge, with passes of any shape between
        part = fixed.part(start, start + width, blocks, wanted=range(1, width))
        ours, theirs = fixed.runner.forward([part]), general.runner.forward([part])
        assert ours.logits[0].shape == (width - 1, checkpoint.config.vocab)
        assert (ours.logits[0] == theirs.logits[0]).all()
        assert (ours.features[0][0] == theirs.features[0][0]).all()
        assert np.abs(ours.logits[0] - fixed.logits[start + 1 : start + width]).max() < CLOSE
        start += width
    # What does not have the shape goes through the general graph: two sequences, no wanted row.
    first, second = fixed.run(fixed.part(0, 2, [1]), fixed.part(0, 5, [2]))
    assert (first == general.run(general.part(0, 2, [1]))[0]).all() and second.shape[0] == 5
    assert fixed.run(fixed.part(0, 2, [1], wanted=range(0)))[0].shape[0] == 0
    fixed.runner.specialise(lambda: StoredDecoder(decoder(checkpoint, "stored")), ())
    assert fixed.runner.fixed_rows == ()


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.weights import open_checkpoint
checkpoint = open_checkpoint(Path(sys.argv[1]))
config, runtime = checkpoint.config, RuntimeConfig(cache_tokens=64)
first = OpenVINORunner(decoder(checkpoint, "stored"), config, runtime)
second = OpenVINORunner(decoder(checkpoint, "stored"), config, runtime)
del first
del second
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_after_models_have_come_and_gone() -> None:
    """The runtime's plugin puts a stack for signals under a thread, and takes it away with itself."""
    argv = [sys.executable, "-c", INTERRUPTED, str(FIXTURES / "tiny_llama")]
    ran = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(FIXTURES.parents[1])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (ran.returncode, ran.stdout) == (0, "interrupted\n"), ran.stderr

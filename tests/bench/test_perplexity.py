"""The quality of a weight form: against a direct computation, and as a command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pilotfish.bench import perplexity
from pilotfish.bench.perplexity import CHUNK, compare, read_text, score, text_tokens
from pilotfish.cli import main
from pilotfish.errors import BadRequest
from pilotfish.llm import LLM
from pilotfish.model.load import ModelOptions, Target, load
from pilotfish.model.openvino.forms import in_form
from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.runner import Runner, Slice
from pilotfish.model.weights import open_checkpoint
from pilotfish.testing.markov import MarkovTarget
from pilotfish.testing.runner import WorldRunner

FIXTURE = Path(__file__).parents[1] / "fixtures" / "tiny_llama"


def tiny_runner(form: str) -> OpenVINORunner:
    checkpoint = open_checkpoint(FIXTURE)
    model = decoder(in_form(checkpoint, form), "stored")
    return OpenVINORunner(model, checkpoint.config, RuntimeConfig(threads=1, cache_tokens=512))


def log_law(runner: Runner, tokens: list[int]) -> np.ndarray:
    """All rows of one pass, normalised in the plainest way."""
    blocks = list(range(len(tokens) // runner.block_size + 1))
    rows = runner.forward([Slice(tokens, 0, blocks, range(len(tokens)))]).logits[0].astype(np.float64)
    return np.log(np.exp(rows) / np.exp(rows).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("length", [3, 40, CHUNK + 1, CHUNK + 2, 2 * CHUNK + 3])
def test_the_score_is_the_direct_computation(length: int) -> None:
    stored, rounded = tiny_runner("stored"), tiny_runner("int4")
    random = np.random.default_rng(length)
    tokens = [int(token) for token in random.integers(0, stored.vocab, length)]
    own, known = log_law(rounded, tokens)[:-1], log_law(stored, tokens)[:-1]
    found = score(rounded, stored, tokens)
    surprise = -np.mean([own[at, token] for at, token in enumerate(tokens[1:])])
    assert found.perplexity == pytest.approx(np.exp(surprise), rel=1e-4)
    assert found.divergence == pytest.approx((np.exp(known) * (known - own)).sum(axis=1).mean(), rel=1e-3)
    assert found.divergence > 0
    assert found.agreement == np.mean(own.argmax(axis=1) == known.argmax(axis=1))


def test_a_runner_beside_itself() -> None:
    runner = WorldRunner(MarkovTarget.random(seed=1, vocab=7), context=256, blocks=64, block_size=4)
    tokens = [int(token) for token in np.random.default_rng(2).integers(0, 7, CHUNK + 2)]
    found = score(runner, runner, tokens)
    assert (found.divergence, found.agreement) == (0, 1)
    # No pass brought one token, and none more than CHUNK.
    assert [len(batch[0].tokens) for batch in runner.passes] == [CHUNK - 1, 2]
    rows = log_law(runner, tokens)[:-1]
    assert found.perplexity == pytest.approx(np.exp(-rows[np.arange(len(rows)), tokens[1:]].mean()))


@pytest.fixture(scope="module")
def tiny() -> Target:
    return load(ModelOptions(target=str(FIXTURE), weights="stored"))


def test_all_forms_are_compared(tiny: Target) -> None:
    tokens = text_tokens(tiny, "Nothing is lost, everything is said again in other words.")
    found = {(one.weights, one.activations): one for one in compare(tiny, tokens)}
    assert set(found) == set(perplexity.COMBINATIONS)
    stored, int8, int4 = (found[form, "f32"] for form in ("stored", "int8", "int4"))
    assert (stored.divergence, stored.agreement) == (0, 1)
    assert found["f32", "f32"].divergence < 1e-8
    assert 0 < found["f16", "f32"].divergence < int8.divergence < int4.divergence
    assert int4.bytes_held < int8.bytes_held < stored.bytes_held


def test_the_built_in_text_is_long_enough(embedded_llm: LLM) -> None:
    assert len(text_tokens(embedded_llm.target, read_text(None))) == perplexity.MOST_TOKENS


def test_texts_that_do_not_serve(tiny: Target, tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="at least 3 tokens, found"):
        text_tokens(tiny, "a")
    (tmp_path / "latin").write_bytes(b"caf\xe9")
    with pytest.raises(BadRequest, match="not UTF-8"):
        read_text(tmp_path / "latin")
    with pytest.raises(BadRequest, match="cannot read a text"):
        read_text(tmp_path)


def test_the_command(tiny: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.txt"
    path.write_text("A small text, for a small model.")
    assert main(["bench", "--perplexity", str(path), "--json"], loaded=tiny) == 0
    fields = json.loads(capsys.readouterr().out)
    assert (fields["text"], len(fields["forms"])) == ("text.txt", len(perplexity.COMBINATIONS))
    assert set(fields["forms"][0]) == set(perplexity.Quality.__dataclass_fields__)
    assert main(["bench", "--perplexity", str(path)], loaded=tiny) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:3] == ["weights", "activations", "perplexity"] and "int4" in shown[-2]
    assert main(["bench", "--perplexity", str(tmp_path / "none")]) == 2
    assert "--perplexity" in capsys.readouterr().err

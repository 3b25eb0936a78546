"""Loading for programs that last: graphs of their own for common passes, only where the bits agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pilotfish import LLM, SamplingParams
from pilotfish.model import load as loading
from pilotfish.model.load import ModelOptions, Target, common_rows, load, specialise
from pilotfish.model.runner import NUMERIC
from pilotfish.model.selfcheck import Proof
from pilotfish.model.steptimes import StepTimes

TINY = Path(__file__).parents[1] / "fixtures" / "tiny_llama"


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("PILOTFISH_CACHE", str(tmp_path))
    loaded = load(ModelOptions(target=str(TINY), threads=1, cache_tokens=2048))
    # What was measured on a busy machine must not decide what is tested.
    return replace(loaded, steps=StepTimes({1: 1.0, 2: 1.0, 4: 1.5, 5: 1.7, 32: 4.0}))


def test_a_program_that_lasts_gets_graphs_and_the_same_text(target: Target) -> None:
    said: list[str] = []
    prompt, params = [5, 9, 2, 44, 5, 9, 2], SamplingParams(max_tokens=40, temperature=0.7, seed=3)
    before = LLM(target, draft="ngram").generate(prompt, params)
    faster = specialise(target, said.append)
    assert faster.runner.fixed_rows == faster.steps.ready == (2, 4)
    assert any("preparing graphs" in line for line in said) and target.steps.ready == ()
    after = LLM(faster, draft="ngram").generate(prompt, params)
    assert after.token_ids == before.token_ids and len(after.token_ids) > 5
    assert specialise(faster) is faster  # once is enough


def test_findings_with_and_without_graphs_are_kept_apart(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The widths follow from step times, which a busy machine changes from one load to the next.
    monkeypatch.setattr(loading, "common_rows", lambda loaded: (2, 4))
    faster = specialise(target)
    again = load(target.options)
    assert again.steps.ready == () and again.proof == target.proof
    lasting = load(target.options, lasting=True)
    assert lasting.steps.ready == lasting.runner.fixed_rows == faster.steps.ready == (2, 4)


def test_dear_widths_hold_no_copy_of_the_weights(target: Target) -> None:
    assert common_rows(target) == (2, 4)
    assert common_rows(replace(target, steps=StepTimes({2: 1.0, 8: 1.3}))) == (2, 4, 8)
    assert common_rows(replace(target, steps=StepTimes({2: 1.0, 3: 2.0, 8: 3.0}))) == (2,)


def test_graphs_that_give_other_bits_are_not_used(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    differing = Proof(form=NUMERIC, noise=1.0, compared=10, differing=3, seconds=0.0)
    monkeypatch.setattr(loading, "prove", lambda runner: differing)
    assert target.form.bitwise
    assert specialise(target, said.append) is target
    assert target.runner.fixed_rows == () and any("other bits" in line for line in said)
    said.clear()
    assert specialise(target, said.append) is target and said == []  # known by now: nothing is compiled


def test_large_models_stay_as_they_are(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "MOST_COPIED", target.runner.weight_bytes - 1)
    assert specialise(target) is target and target.runner.fixed_rows == ()


def test_a_numeric_form_has_its_own_plain_step(target: Target) -> None:
    numeric = replace(target, options=replace(target.options, exactness="numeric"), form=NUMERIC)
    assert specialise(numeric).runner.fixed_rows == (1, 4)

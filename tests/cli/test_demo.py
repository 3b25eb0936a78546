"""The demo with short questions: same text, honest verdicts, JSON, columns on a terminal."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from pilotfish.cli import demo
from pilotfish.cli.race import Question, Race, pooled
from pilotfish.llm import LLM
from pilotfish.model.load import Target
from pilotfish.model.runner import NUMERIC
from pilotfish.sampling import SamplingParams
from tests.cli.conftest import Run
from tests.cli.test_generate import Recorder
from tests.cli.test_terminal import displayed

COPY = Question("a copy", "Repeat exactly: red green blue red green blue", SamplingParams(max_tokens=12))
SAMPLED = Question("sampled", "Say a word.", SamplingParams(max_tokens=8, temperature=0.8, seed=7))


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "QUESTIONS", (COPY, SAMPLED))


def test_a_log_holds_prompt_text_and_verdict(run: Run) -> None:
    ran = run("demo")
    lines = ran.out.splitlines()
    assert ran.status == 0 and ran.err == ""
    assert "> Say a word." in lines
    assert sum(line.startswith("identical, ") for line in lines) == 2
    assert lines[-1].startswith("identical 2/2, tokens ") and ", speed-up decode " in lines[-1]
    assert "\x1b" not in ran.out


def test_json(run: Run) -> None:
    fields = run("demo", "--json", "--draft", "ngram").fields
    prompts = fields["prompts"]
    assert isinstance(prompts, list) and [entry["title"] for entry in prompts] == ["a copy", "sampled"]
    assert fields["identical"] is True and fields["identical_prompts"] == 2 and fields["draft"] == "ngram"
    assert fields["tokens"] == sum(entry["tokens"] for entry in prompts)


def test_columns_on_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "90"), ("LINES", "30")):
        monkeypatch.setenv(name, value)
    stdout = Recorder(terminal=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        assert run("demo").status == 0
    written = stdout.getvalue()
    shown = displayed(written)
    assert written.endswith("\n") and "\x1b[?25l" in written and "\x1b[?25h" in written
    assert sum(line.startswith("plain ") and "pilotfish " in line for line in shown) == 2
    assert sum(line.startswith("identical, ") for line in shown) == 2
    monkeypatch.setenv("COLUMNS", "30")
    stdout = Recorder(terminal=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        run("demo")
    assert "\x1b" not in stdout.getvalue()


def test_a_difference_is_an_error_only_where_equality_is_promised(loaded: Target) -> None:
    bitwise = LLM(loaded)
    race = Race(bitwise.with_speculation(draft="none"), bitwise, SAMPLED)
    for lane in race.run():
        lane.pieces.clear()
    assert demo._verdict(race, bitwise).startswith("identical, ")
    race.fast.choice.token_ids[-1] += 1
    assert race.result.identical == 0
    if loaded.form.bitwise:
        assert demo._is_broken(race, bitwise) and demo._verdict(race, bitwise).startswith("DIFFERENT, ")
    lawful = bitwise.with_speculation(verification="rejection")
    assert not demo._is_broken(race, lawful) and "rejection keeps the law" in demo._verdict(race, lawful)
    numeric = LLM(replace(loaded, form=NUMERIC))
    assert not demo._is_broken(race, numeric) and "noise" in demo._verdict(race, numeric)


def test_lanes_take_turns_and_pay_for_themselves(loaded: Target) -> None:
    fast = LLM(loaded)
    race = Race(fast.with_speculation(draft="none"), fast, COPY)
    for lane in race.run():
        assert lane.spent > 0
        other = race.fast if lane is race.plain else race.plain
        assert lane.done or other.done or abs(lane.spent - other.spent) < 2
    result = pooled([race])
    assert result.tokens == race.plain.tokens == race.fast.tokens
    assert result.plain_seconds == race.plain.spent and race.plain.first <= race.plain.last
    assert result.speedup_e2e == race.plain.spent / race.fast.spent


def test_an_abandoned_race_frees_its_requests(loaded: Target) -> None:
    fast = LLM(loaded)
    race = Race(fast.with_speculation(draft="none"), fast, COPY)
    running = race.run()
    next(running)
    running.close()
    assert not fast.engine.busy and not race.plain.llm.engine.busy
    fast.engine.check()

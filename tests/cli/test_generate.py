"""`generate` on the embedded model: streaming, JSON, choices, stdin, Ctrl-C."""

from __future__ import annotations

import io
import itertools
import sys

import pytest

from pilotfish.cli import generate
from pilotfish.engine.engine import Engine
from pilotfish.engine.request import Event
from pilotfish.llm import LLM
from pilotfish.model.load import Target
from tests.cli.conftest import Run

COPY = "Repeat exactly: red green blue red green blue red green blue red green blue"
SHORT = ("--max-new-tokens", "16")


class Recorder(io.StringIO):
    """A stdout that remembers what it held whenever it was flushed."""

    def __init__(self, *, terminal: bool = False) -> None:
        super().__init__()
        self.flushed: list[str] = []
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    def flush(self) -> None:
        self.flushed.append(self.getvalue())


def test_json_has_the_fields_of_the_design(run: Run) -> None:
    ran = run("generate", COPY, "--json", "--draft", "ngram", *SHORT)
    fields = ran.fields
    assert (ran.status, ran.err) == (0, "")
    assert set(fields) == {
        *("text", "token_ids", "finish_reason", "seed", "usage", "timing", "speculation"),
        *("exactness", "weights", "activations"),
    }
    usage, timing, speculation = fields["usage"], fields["timing"], fields["speculation"]
    assert isinstance(usage, dict) and isinstance(timing, dict) and isinstance(speculation, dict)
    assert set(usage) == {"prompt_tokens", "completion_tokens"}
    assert set(timing) == {"ttft_s", "itl_ms", "tokens_per_second"}
    assert {
        *("draft", "rounds", "drafted_rounds", "draft_tokens", "accepted_tokens", "acceptance_rate"),
        *("mean_acceptance_length", "accepted_per_position", "by_source"),
    } <= set(speculation)
    ids = fields["token_ids"]
    assert isinstance(ids, list) and usage["completion_tokens"] == len(ids)
    assert len(ids) == speculation["rounds"] + speculation["accepted_tokens"]
    assert speculation["draft"] == "ngram"


def test_the_draft_changes_no_token_and_the_seed_replays(run: Run) -> None:
    sampled = ("generate", COPY, "--json", "--temperature", "0.9", *SHORT)
    first = run(*sampled).fields
    again = run(*sampled, "--seed", str(first["seed"]), "--draft", "none").fields
    assert again["token_ids"] == first["token_ids"]


def test_choices_and_logprobs(run: Run) -> None:
    flags = ("--n", "2", "--logprobs", "2", "--temperature", "1", "--seed", "3", "--max-new-tokens", "4")
    fields = run("generate", "Say a word.", "--json", *flags).fields
    choices, logprobs = fields["choices"], fields["logprobs"]
    assert isinstance(choices, list) and isinstance(logprobs, list)
    assert [choice["index"] for choice in choices] == [0, 1]
    assert choices[0]["token_ids"] == fields["token_ids"] != choices[1]["token_ids"]
    assert [entry["token"] for entry in logprobs] == fields["token_ids"]
    assert len(logprobs[0]["top"]) == 2 and logprobs[0]["logprob"] <= 0
    plain = run("generate", "Say a word.", *flags[:2], *flags[4:])
    assert plain.out.startswith("--- choice 1 of 2\n") and "\n--- choice 2 of 2\n" in plain.out
    assert all(choice["text"] in plain.out for choice in choices)


def test_text_is_streamed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = Recorder()
    monkeypatch.setattr(sys, "stdout", stdout)
    run("generate", "Why is the sky blue?", "--draft", "none", *SHORT)
    grown = list(dict.fromkeys(stdout.flushed))
    assert len(grown) > 8
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(grown))


def test_stats_go_to_stderr(run: Run) -> None:
    ran = run("generate", COPY, "--stats", "--seed", "5", *SHORT)
    assert "accepted" not in ran.out
    for name in ("rounds", "accepted per position", "time to first token", "seed", "exactness"):
        assert f"\n{name} " in ran.err


def test_drafts_are_coloured_on_a_terminal_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("generate", COPY, "--show-drafts", *SHORT)
    plain = run(*asked)
    assert "\x1b" not in plain.out and "no colours" in plain.err
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stdout = Recorder(terminal=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        ran = run(*asked)
    assert "\x1b[32m" in stdout.getvalue() and "suffix" in ran.err
    monkeypatch.setenv("NO_COLOR", "1")
    stdout = Recorder(terminal=True)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        run(*asked)
    assert stdout.getvalue() == plain.out


@pytest.mark.parametrize("argv", [("generate",), ("generate", "-")])
def test_stdin_is_the_prompt(run: Run, monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...]) -> None:
    expected = run("generate", "Say a word.", *SHORT).out
    monkeypatch.setattr(sys, "stdin", io.StringIO("Say a word.\n"))
    assert run(*argv, *SHORT).out == expected


@pytest.mark.parametrize("held", ["", "\n"])
def test_an_empty_stdin_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch, held: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(held))
    ran = run("generate")
    assert ran.status == 1 and "stdin held no prompt" in ran.err


def test_a_terminal_without_a_prompt_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Recorder(terminal=True))
    ran = run("generate")
    assert ran.status == 2 and "no prompt" in ran.err


def test_raw_and_system_reach_the_model(run: Run) -> None:
    def length(*argv: str) -> int:
        usage = run("generate", *argv, "--json", "--max-new-tokens", "1").fields["usage"]
        assert isinstance(usage, dict)
        return int(usage["prompt_tokens"])

    assert length("one two", "--raw") < 5 < length("one two")
    assert length("one two", "--system", "Speak like a pirate. " * 9) > length("one two") + 20


def test_no_tokens_is_an_empty_text(run: Run) -> None:
    fields = run("generate", "hi", "--json", "--max-new-tokens", "0").fields
    assert (fields["text"], fields["finish_reason"]) == ("", "length")
    assert fields["timing"] == {"ttft_s": None, "itl_ms": None, "tokens_per_second": None}


def test_a_prompt_beyond_the_context_is_one_line(run: Run) -> None:
    ran = run("generate", "word " * 9000)
    assert ran.status == 1 and ran.err.count("\n") == 1 and "context holds" in ran.err


def test_ctrl_c_keeps_the_text_so_far(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    step, steps = Engine.step, []

    def interrupted(engine: Engine) -> list[Event]:
        steps.append(engine)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(engine)

    monkeypatch.setattr(Engine, "step", interrupted)
    ran = run("generate", "Why is the sky blue?", "--draft", "none", *SHORT)
    assert ran.status == 130 and ran.out and "Traceback" not in ran.err


def test_an_error_on_the_way_ends_with_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(model: LLM, request: object) -> list[Event]:
        return [Event(0, 0, text="so far", finish_reason="error", error="the row holds NaN")]

    monkeypatch.setattr(LLM, "stream_request", failing)
    ran = run("generate", "hi")
    assert (ran.status, ran.out) == (1, "so far\n")
    assert ran.err == "pilotfish: error: the row holds NaN\n"


def test_control_characters_do_not_reach_a_terminal(loaded: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for terminal, written in ((True, "a\ufffd[2Jb"), (False, "a\x1b[2Jb")):
        stdout = Recorder(terminal=terminal)
        monkeypatch.setattr(sys, "stdout", stdout)
        writer = generate.Writer(LLM(loaded, draft="none"), 1, colours=False)
        writer.write(Event(0, 0, text="a\x1b[2Jb"))
        assert stdout.getvalue() == written

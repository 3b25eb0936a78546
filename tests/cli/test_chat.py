"""`chat`: a conversation through a pipe, its commands, and Ctrl-C during a reply."""

from __future__ import annotations

import io
import os
import signal
import sys

import pytest

from pilotfish.cli.chat import Chat, stopping
from pilotfish.engine.engine import Engine
from pilotfish.engine.request import Event
from pilotfish.llm import LLM
from pilotfish.model.load import Target
from pilotfish.sampling import SamplingParams
from tests.cli.conftest import Ran, Run


@pytest.fixture
def talk(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    def talk(*lines: str, flags: tuple[str, ...] = ()) -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        return run("chat", "--max-new-tokens", "12", *flags)

    return talk


@pytest.fixture
def chat(loaded: Target) -> Chat:
    return Chat(LLM(loaded), SamplingParams(max_tokens=12), system="Be brief.")


def test_a_piped_conversation(talk: Run) -> None:
    ran = talk("My name is Ada.", "", "What is my name?")
    assert ran.status == 0
    assert ran.out.count("\n") >= 2 and ran.err == ""


def test_commands(talk: Run) -> None:
    ran = talk("/help", "/stats", "/seed 7", "/seed", "/seed x", "/seed -1", "/what", "/reset", "/quit", "hi")
    assert ran.status == 0 and ran.out == ""
    for said in ("/reset    forget", "no reply yet", "seed 7", "a new seed each time", "found 'x'"):
        assert said in ran.err
    assert "seed = -1 cannot be served" in ran.err and "/what is no command" in ran.err


def test_what_was_said_is_kept_until_reset(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    assert chat.take("Say a word.") and chat.take("And another.")
    assert [message["role"] for message in chat.messages] == ["system", *["user", "assistant"] * 2]
    assert [message["stopped"] for message in chat.messages if "stopped" in message] == [False, False]
    assert chat.take("/stats") and "accepted" in capsys.readouterr().err
    assert chat.take("/reset") and chat.messages == [{"role": "system", "content": "Be brief."}]
    assert not chat.take("/quit")


def test_the_same_seed_gives_the_same_reply(talk: Run) -> None:
    flags = ("--temperature", "1", "--seed", "11")
    assert talk("Say a word.", flags=flags).out == talk("Say a word.", flags=flags).out


def test_ctrl_c_stops_the_reply_only(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step, steps = Engine.step, []

    def interrupted(engine: Engine) -> list[Event]:
        steps.append(engine)
        if len(steps) == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return step(engine)

    monkeypatch.setattr(Engine, "step", interrupted)
    assert chat.take("Why is the sky blue?")
    assert "[stopped]" in capsys.readouterr().err
    assert chat.messages[-1]["stopped"] is True and chat.messages[-1]["content"]
    assert chat.take("And the sea?")
    assert chat.messages[-1]["stopped"] is False


def test_ctrl_c_before_the_first_word_forgets_the_message(
    chat: Chat, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = LLM.submit

    def interrupted(model: LLM, request: object) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return submit(model, request)  # type: ignore[arg-type]

    monkeypatch.setattr(LLM, "submit", interrupted)
    assert chat.take("hi")
    assert len(chat.messages) == 1


def test_a_second_ctrl_c_interrupts() -> None:
    with pytest.raises(KeyboardInterrupt), stopping() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.asked
        os.kill(os.getpid(), signal.SIGINT)


def test_a_conversation_that_is_too_long_lives_on(chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
    before = list(chat.messages)
    assert chat.take("word " * 9000)
    said = capsys.readouterr().err
    assert "/reset begins anew" in said and "context holds" in said
    assert chat.messages == before
    assert chat.take("Say a word.") and len(chat.messages) == 3

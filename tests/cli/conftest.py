"""A way to run the command line in this process, on the model that all tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from pilotfish.cli import main
from pilotfish.llm import LLM
from pilotfish.model.load import Target


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def fields(self) -> dict[str, object]:
        """The JSON object on stdout, which must be one line and all there is."""
        lines = self.out.split("\n")
        assert len(lines) == 2 and lines[1] == ""
        found = json.loads(lines[0])
        assert isinstance(found, dict)
        return found


Run = Callable[..., Ran]


@pytest.fixture(scope="session")
def loaded(embedded_llm: LLM) -> Target:
    return embedded_llm.target


@pytest.fixture
def run(loaded: Target, capsys: pytest.CaptureFixture[str]) -> Run:
    """`main` on the loaded model."""

    def run(*argv: str) -> Ran:
        status = main(argv, loaded=loaded)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Run:
    """`main` with no model at hand: only for what must fail before one is loaded."""

    def refused(*argv: str) -> Ran:
        status = main(argv)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return refused

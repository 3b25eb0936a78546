"""The command line: `pilotfish demo | generate | chat | bench | audit | inspect`.

    main(["generate", "Why is the sky blue?", "--max-new-tokens", "64"])    # the exit status

A command is a module of this package with `parser() -> Parser` and `run(args) -> int`, imported
when it is asked for, so that `pilotfish --help` costs nothing. Exit status: 0, 1 for what failed,
2 for a wrong command line, 130 after Ctrl-C. Knows nothing of what the commands do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from pilotfish.errors import PilotfishError

if TYPE_CHECKING:
    from pilotfish.model.load import Target

COMMANDS = {
    "demo": "plain and speculative decoding side by side: the same text, sooner",
    "generate": "continue a prompt",
    "chat": "talk to the model",
    "bench": "measure speed on a set of prompts, with the plain run beside it",
    "audit": "prove on this machine that speculation changes no token",
    "inspect": "what a model is, whether it runs here, and what it would cost",
}
NOT_BUILT = ("plan", "train", "serve")
_BROKEN_PIPE = 141  # what a shell reports for a program that dies of SIGPIPE


def main(argv: Sequence[str] | None = None, *, loaded: Target | None = None) -> int:
    """Run one command and return its exit status. `loaded`: a model to use instead of loading one."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words, loaded)
        sys.stdout.flush()
        return status
    except OSError as problem:
        _forget_stdout()
        if isinstance(problem, BrokenPipeError):
            return _BROKEN_PIPE
        return _complain(f"cannot read or write: {problem}", 1)
    except KeyboardInterrupt:
        print(file=sys.stderr)  # what was written so far keeps its line
        return 130
    except SystemExit as end:  # argparse, after --help
        return end.code if isinstance(end.code, int) else 0


def _dispatch(words: list[str], loaded: Target | None) -> int:
    _prepare_streams()
    try:
        name = words[0] if words else ""
        if name in ("-h", "--help"):
            print(_help())
            return 0
        if name == "--version":
            from pilotfish import __version__

            print(f"pilotfish {__version__}")
            return 0
        if name in COMMANDS:
            command = import_module(f"pilotfish.cli.{name}")
            args = command.parser().parse_args(words[1:])
            args.loaded = loaded
            return int(command.run(args))
        return _complain(_unknown(name), 2)
    except PilotfishError as problem:
        from pilotfish.cli.flags import BadFlag

        return _complain(str(problem), 2 if isinstance(problem, BadFlag) else 1)


def _prepare_streams() -> None:
    """Closed streams are None in Python; odd characters must not end a run."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    if sys.stdout is None:
        raise SystemExit(_complain("stdout is closed, so there is nowhere to write to", 1))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _forget_stdout() -> None:
    """What is still buffered there must not raise again when Python ends."""
    if isinstance(sys.stdout, TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, status: int) -> int:
    line = " ".join(message.split())
    print(f"pilotfish: error: {line}", file=sys.stderr)
    return status


def _unknown(name: str) -> str:
    known = f"The commands: {', '.join(COMMANDS)}; see pilotfish --help"
    if not name:
        return f"say what to do. {known}"
    if name in NOT_BUILT:
        return f"{name} is not built yet. {known}"
    kind = "flag" if name.startswith("-") else "command"
    near = get_close_matches(name, [*COMMANDS, "--help", "--version"], n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"unknown {kind} {name!r}{hint} {known}"


def _help() -> str:
    commands = "\n".join(f"  {name:<10}{text}" for name, text in COMMANDS.items())
    return f"""usage: pilotfish COMMAND [flags]

Lossless speculative decoding: the same text as the model alone, only sooner.

commands:
{commands}

flags:
  -h, --help   this text; pilotfish COMMAND --help shows the flags of a command
  --version    the version"""

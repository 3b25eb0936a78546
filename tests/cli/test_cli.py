"""The dispatcher: commands, exit statuses, one line for every error, nothing loaded for --help."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pilotfish
from pilotfish.cli import COMMANDS
from tests.cli.conftest import Run


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        ([], 2, "say what to do"),
        (["genrate"], 2, "unknown command 'genrate'; did you mean 'generate'?"),
        (["--verson"], 2, "unknown flag '--verson'; did you mean '--version'?"),
        (["serve"], 2, "serve is not built yet"),
        (["plan"], 2, "plan is not built yet"),
        (["inspect", "x.gguf"], 1, "'x.gguf' is neither a file"),
        (["inspect", "/tmp"], 1, "is a folder without config.json"),
        (["inspect", __file__], 1, "this is no GGUF file"),
        (["inspect", "--target", "x.gguf"], 2, "unknown flag '--target'"),
        (["generate", "a", "b"], 2, "unexpected 'b'; put several words in quotes"),
        (["generate", "a", "--tmp"], 2, "unknown flag '--tmp'"),
        (["generate", "a", "--draft", "ngrm"], 2, "did you mean 'ngram'?"),
        (["generate", "a", "--draft", "eagle:x"], 2, "is not built yet"),
        (["generate", "a", "--json", "--show-drafts"], 2, "drop one of them"),
        (["generate", "a", "--raw", "--system", "s"], 2, "drop one of them"),
        (["generate", "a", "--logprobs", "2"], 2, "add --json"),
        (["generate", "a", "--target", "/nowhere/x.gguf"], 1, "'/nowhere/x.gguf' is neither a file"),
        (["generate", "a", "--target", "/tmp"], 1, "is a folder without config.json"),
        (["generate", "a", "--target", __file__], 1, "pilotfish: error: "),
        (["chat", "--n", "2"], 2, "unknown flag '--n'"),
        (["demo", "--seed", "2"], 2, "unknown flag '--seed'"),
    ],
)
def test_errors_are_one_line(refused: Run, argv: list[str], status: int, said: str) -> None:
    ran = refused(*argv)
    assert (ran.status, ran.out) == (status, "")
    assert ran.err.startswith("pilotfish: error: ") and ran.err.count("\n") == 1
    assert said in ran.err


def test_help_and_version(refused: Run) -> None:
    shown = refused("--help")
    assert shown.status == 0 and all(name in shown.out for name in COMMANDS)
    assert refused("--version").out == f"pilotfish {pilotfish.__version__}\n"
    shown = refused("generate", "--help")
    assert shown.status == 0 and "--repetition-penalty" in shown.out


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_starts_no_runtime(flag: str) -> None:
    script = (
        "import sys; from pilotfish.cli import main; status = main([sys.argv[1]]); "
        "heavy = {'openvino', 'numpy', 'tokenizers'} & set(sys.modules); sys.exit(status or len(heavy))"
    )
    assert subprocess.run([sys.executable, "-c", script, flag], capture_output=True).returncode == 0


def test_a_closed_pipe_is_quiet() -> None:
    # A reader that leaves at once; the program's help comes too late for it.
    command = f"({sys.executable} -m pilotfish --help; echo $? >&2) | true"
    ran = subprocess.run(["bash", "-c", f"trap '' PIPE; {command}"], capture_output=True, text=True)
    assert ran.stderr.strip() in ("0", "141")


def test_a_closed_stdout_is_said() -> None:
    command = f"{sys.executable} -m pilotfish --version >&-"
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert ran.returncode == 1 and "stdout is closed" in ran.stderr


def test_nothing_reports_home() -> None:
    script = (
        "import sys; from pilotfish.cli import main; main(['generate', '--help']); "
        "sys.exit('openvino' not in sys.modules or sys.modules['openvino_telemetry'] is not None)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_choices_beyond_the_usual_places(run: Run) -> None:
    ran = run("generate", "Say a word.", "--n", "17", "--max-new-tokens", "1", "--json")
    assert len(ran.fields["choices"]) == 17  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["generate", "hi", "--logit-bias", "49152=1"], "--logit-bias = 49152 cannot be served"),
        (["generate", "\udcff"], "the prompt holds bytes that are no UTF-8"),
        (["chat", "--system", "\udcff"], "--system holds bytes that are no UTF-8"),
    ],
)
def test_what_only_the_model_can_tell(run: Run, argv: list[str], said: str) -> None:
    ran = run(*argv)
    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err and ran.err.count("\n") == 1

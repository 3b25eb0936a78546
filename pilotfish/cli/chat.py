"""`pilotfish chat`: a conversation with the model, line by line.

    pilotfish chat --temperature 0.7 --system "Answer in one sentence."

Ctrl-C stops a reply, not the program; at the prompt it leaves, as Ctrl-D does. Replies go to
stdout, all else to stderr, so a piped conversation works too. Knows nothing of how text is made.
"""

from __future__ import annotations

import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from types import FrameType

from pilotfish.cli.flags import (
    BadFlag,
    Parser,
    add_model_flags,
    add_sampling_flags,
    add_speculation_flags,
    check_text,
    check_vocab,
    llm,
    sampling_params,
)
from pilotfish.cli.report import stats_table
from pilotfish.cli.terminal import DIM, Progress, coloured, has_colour, is_terminal, shown_safely
from pilotfish.errors import BadRequest, PilotfishError
from pilotfish.llm import LLM, Choice, Completion
from pilotfish.sampling import SamplingParams

_HELP = """\
/reset    forget the conversation
/stats    what speculation did for the last reply
/seed N   use this seed from now on; without N: a new one each time
/quit     leave (so do Ctrl-C and Ctrl-D)
Ctrl-C while the model writes stops the reply; what was written stays in the conversation."""
_NOT_HERE = ("logprobs", "n")  # sampling flags that a conversation has no use for


def parser() -> Parser:
    """The flags of `pilotfish chat`."""
    parser = Parser("chat", "Talk to the model. /help lists what can be said beside a message.")
    parser.add_argument("--system", metavar="TEXT", help="a system message that begins the conversation")
    add_model_flags(parser)
    add_speculation_flags(parser)
    add_sampling_flags(parser, without=_NOT_HERE)
    return parser


def run(args: Namespace) -> int:
    """Talk until the user leaves."""
    params = sampling_params(args)
    check_text("--system", args.system)
    if sys.stdin is None:
        raise BadFlag("stdin is closed, and a conversation needs it")
    with Progress(sys.stderr) as progress:
        model = llm(args, progress)
    check_vocab(params, model)
    if not model.target.tokenizer.has_chat_template:
        raise BadRequest("this model has no chat template; use pilotfish generate --raw")
    chat = Chat(model, params, system=args.system)
    if sys.stdin.isatty():
        _say(f"{model.target.name}; /help lists the commands")
    while (line := _read_line()) is not None:
        if not chat.take(line):
            break
    return 0


def _read_line() -> str | None:
    """The next line of the user, or None when there is none."""
    try:
        if sys.stdin.isatty() and sys.stdout.isatty():
            with suppress(ImportError):  # it is not everywhere; it gives `input` arrows and a history
                import readline  # noqa: F401
            return input("> ")
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        return line.removesuffix("\n") if line else None
    except UnicodeDecodeError as problem:
        raise BadRequest(f"the input is no UTF-8 text ({problem}); convert it first") from None
    except (EOFError, KeyboardInterrupt):
        print(file=sys.stderr)
        return None


def _say(text: str) -> None:
    print(coloured(text, DIM) if has_colour(sys.stderr) else text, file=sys.stderr, flush=True)


@dataclass
class Stop:
    """Whether Ctrl-C was pressed."""

    asked: bool = False


@contextmanager
def stopping() -> Iterator[Stop]:
    """Ctrl-C sets a flag, so that no step is cut in two; pressed again it interrupts as usual."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals belong to the main thread
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True

    before = signal.signal(signal.SIGINT, on_signal)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class Chat:
    """The conversation. `take` one line of the user after the other; False means that he leaves.

    `messages` holds what was said; a reply that was stopped is marked with "stopped".
    """

    def __init__(self, model: LLM, params: SamplingParams, *, system: str | None = None) -> None:
        self._model = model
        self._params = params
        self._system = system
        self._last: Completion | None = None
        self.messages: list[dict[str, object]] = []
        self._reset("")
        self._commands: dict[str, Callable[[str], None]] = {
            "/reset": self._reset,
            "/stats": self._stats,
            "/seed": self._seed,
            "/help": lambda _: _say(_HELP),
        }

    def take(self, line: str) -> bool:
        """A message, or a command."""
        word, _, rest = line.strip().partition(" ")
        if word == "/quit":
            return False
        if word in self._commands:
            self._commands[word](rest.strip())
        elif word.startswith("/"):
            _say(f"{word} is no command; /help lists them")
        elif word:
            self._reply_to(line)
        return True

    def _reset(self, _: str) -> None:
        if self.messages:
            _say("the conversation begins anew")
        self.messages = [] if self._system is None else [{"role": "system", "content": self._system}]

    def _stats(self, _: str) -> None:
        _say(stats_table(self._model, self._last) if self._last else "no reply yet")

    def _seed(self, text: str) -> None:
        try:
            self._params = replace(self._params, seed=int(text) if text else None)
        except ValueError as problem:  # a BadRequest is one, too
            _say(
                str(problem)
                if isinstance(problem, BadRequest)
                else f"/seed needs a whole number, found {text!r}"
            )
            return
        _say(f"seed {text}" if text else "a new seed each time; /stats shows it")

    def _reply_to(self, line: str) -> None:
        self.messages.append({"role": "user", "content": line})
        try:
            check_text("the message", line)
            reply, stopped = self._write()
        except PilotfishError as problem:
            self.messages.pop()
            _say(f"error: {problem}")
            return
        if not reply.text:
            # An empty turn would only confuse the model.
            self.messages.pop()
            _say("[stopped before the first word]" if stopped else "[no reply]")
            return
        self.messages.append({"role": "assistant", "content": reply.text, "stopped": stopped})
        if stopped:
            _say("[stopped]")

    def _write(self) -> tuple[Choice, bool]:
        """Write a reply to stdout. True beside it when the user stopped it."""
        model = self._model
        request = model.request(self.messages, self._params)
        self._check_room(len(request.prompt))
        choice, terminal = Choice(), is_terminal(sys.stdout)
        self._last = Completion(len(request.prompt), request.seed, [choice])
        with stopping() as stop:
            number = model.submit(request)
            while not choice.finish_reason:
                events = model.engine.abort(number) if stop.asked else model.engine.step()
                for event in events:
                    choice.add(event)
                    sys.stdout.write(shown_safely(event.text) if terminal else event.text)
                sys.stdout.flush()
        print(flush=True)
        if choice.error is not None:
            raise PilotfishError(choice.error)
        if len(request.prompt) + len(choice.token_ids) >= model.target.runner.context:
            _say("the context is full, so the reply ends here; /reset begins anew")
        return choice, choice.finish_reason == "aborted"

    def _check_room(self, length: int) -> None:
        """Raises BadRequest where nothing could be written any more."""
        context = self._model.target.runner.context
        if length >= context:
            raise BadRequest(
                f"the conversation has grown to {length} tokens and the model's context holds {context}; "
                "/reset begins anew, or say it shorter"
            )

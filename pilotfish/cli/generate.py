"""`pilotfish generate PROMPT`: continue one prompt, the text as it is made.

    pilotfish generate "Why is the sky blue?" --temperature 0.8 --seed 7 --stats
    git diff | pilotfish generate --json > reply.json

The text goes to stdout, all else to stderr. Knows nothing of conversations.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter

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
from pilotfish.cli.painter import Painter, legend
from pilotfish.cli.report import completion_fields, json_line, stats_table
from pilotfish.cli.terminal import Progress, coloured, has_colour, is_terminal, origin_colour, shown_safely
from pilotfish.engine.request import Event
from pilotfish.errors import BadRequest
from pilotfish.llm import LLM, Choice, Completion, Prompt, SpeculationOptions


def parser() -> Parser:
    """The flags of `pilotfish generate`."""
    parser = Parser("generate", "Continue a prompt. The text goes to stdout as it is made.")
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="a text; - or none reads stdin")
    parser.add_argument("--raw", action="store_true", help="the prompt as it is, without the chat template")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the prompt")
    parser.add_argument("--stats", action="store_true", help="what speculation did, on stderr at the end")
    parser.add_argument("--show-drafts", action="store_true", help="colour each token by who proposed it")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else")
    add_model_flags(parser)
    add_speculation_flags(parser)
    add_sampling_flags(parser)
    return parser


def run(args: Namespace) -> int:
    """Continue the prompt; 1 where that failed on the way."""
    params = sampling_params(args)
    _refuse_pointless(args, params.logprobs)
    prompt = _messages(args, _prompt_text(args))
    with Progress(sys.stderr) as progress:
        # Choices run together, so as many must find a place.
        most = max(SpeculationOptions.max_sequences, params.n)
        model = llm(args, progress, lasting=False, max_sequences=most)
    check_vocab(params, model)
    request = model.request(prompt, params, raw=args.raw)
    done = Completion(len(request.prompt), request.seed, [Choice() for _ in range(params.n)])
    writer = None if args.json else Writer(model, params.n, colours=_colours(args))
    for event in model.stream_request(request):
        done.choices[event.choice].add(event)
        if writer is not None:
            writer.write(event)
    if args.json:
        print(json_line(completion_fields(model, done, logprobs=params.logprobs is not None)))
    elif args.show_drafts and writer is not None and writer.colours:
        print(f"\n{legend(writer.seen)}", file=sys.stderr)
    if args.stats:
        print(f"\n{stats_table(model, done)}", file=sys.stderr)
    return _complain_of_errors(done)


def _refuse_pointless(args: Namespace, logprobs: int | None) -> None:
    if args.raw and args.system is not None:
        raise BadFlag("--system needs the chat template, which --raw leaves out; drop one of them")
    if args.json and args.show_drafts:
        raise BadFlag("--show-drafts colours text for a terminal and --json writes none; drop one of them")
    if logprobs is not None and not args.json:
        raise BadFlag("--logprobs is reported with --json only; add --json")


def _prompt_text(args: Namespace) -> str:
    if args.prompt is not None and args.prompt != "-":
        return str(args.prompt)
    if sys.stdin is None or (args.prompt is None and sys.stdin.isatty()):
        raise BadFlag('no prompt; give one, as in pilotfish generate "Why is the sky blue?", or pipe it in')
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as problem:
        raise BadRequest(f"the prompt on stdin is no UTF-8 text ({problem}); convert it first") from None
    if not text.strip():
        raise BadRequest("stdin held no prompt; pipe in a text or give one as an argument")
    # `echo` and editors end a text with a newline that nobody means as part of a question.
    return text if args.raw else text.removesuffix("\n")


def _messages(args: Namespace, text: str) -> Prompt:
    check_text("the prompt", text)
    check_text("--system", args.system)
    if args.system is None:
        return text
    return [{"role": "system", "content": args.system}, {"role": "user", "content": text}]


def _colours(args: Namespace) -> bool:
    if args.show_drafts and not has_colour(sys.stdout):
        print("pilotfish: no colours, as stdout is no terminal or NO_COLOR is set", file=sys.stderr)
        return False
    return bool(args.show_drafts)


def _complain_of_errors(done: Completion) -> int:
    failed = [choice.error for choice in done.choices if choice.finish_reason == "error"]
    for error in failed:
        print(f"pilotfish: error: {error}", file=sys.stderr)
    return 1 if failed else 0


class Writer:
    """Writes choices one after another to stdout, the first unfinished one as it is made."""

    def __init__(self, model: LLM, choices: int, *, colours: bool) -> None:
        self.colours = colours
        self._painters = [Painter(model.target.tokenizer) for _ in range(choices)]
        self._texts = [""] * choices  # made, but its turn has not come
        self._reasons: list[str | None] = [None] * choices
        self._turn = 0
        self._terminal = is_terminal(sys.stdout)
        self._headers = choices > 1
        self._begun = False  # no header over an error that comes before the first text

    @property
    def seen(self) -> Counter[str]:
        """Tokens by origin, over all choices."""
        return sum((painter.seen for painter in self._painters), Counter())

    def write(self, event: Event) -> None:
        """Take in an event and write what may be written by now."""
        self._texts[event.choice] += self._painted(event)
        self._reasons[event.choice] = event.finish_reason
        if not self._begun:
            self._begin()
        while self._turn < len(self._texts):
            sys.stdout.write(self._texts[self._turn])
            self._texts[self._turn] = ""
            if self._reasons[self._turn] is None:
                break
            sys.stdout.write("\n")
            self._turn += 1
            self._begin()
        sys.stdout.flush()

    def _painted(self, event: Event) -> str:
        pieces = self._painters[event.choice].paint(event)
        if not self.colours:
            return shown_safely(event.text) if self._terminal else event.text
        return "".join(coloured(shown_safely(piece), origin_colour(origin)) for piece, origin in pieces)

    def _begin(self) -> None:
        self._begun = True
        if self._headers and self._turn < len(self._texts):
            space = "\n" if self._turn else ""
            sys.stdout.write(f"{space}--- choice {self._turn + 1} of {len(self._texts)}\n")

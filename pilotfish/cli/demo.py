"""`pilotfish demo`: plain and speculative decoding side by side, and the same text from both.

    pilotfish demo
    pilotfish demo --draft ngram --json

Three prompts: one that copies much, one that is sampled, one that nobody can guess. Exit status 1
where a text differs that may not. Knows how a race is shown, not how it is run.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import nullcontext
from typing import Protocol

from pilotfish.cli.flags import Parser, add_model_flags, add_speculation_flags, llm
from pilotfish.cli.painter import legend
from pilotfish.cli.race import Lane, Question, Race, Result, pooled
from pilotfish.cli.report import json_line
from pilotfish.cli.screen import Column, Screen, columns, fits, size
from pilotfish.cli.terminal import (
    BOLD,
    DIM,
    Progress,
    coloured,
    has_colour,
    is_terminal,
    origin_colour,
    shown_safely,
)
from pilotfish.llm import LLM
from pilotfish.sampling import SamplingParams

_CODE = """class Account:
    def __init__(self, owner, balance):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance = self.balance + amount
        return self.balance

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance = self.balance - amount
        return self.balance

    def transfer(self, other, amount):
        self.withdraw(amount)
        other.deposit(amount)
        return self.balance
"""
QUESTIONS = (
    Question(
        "a code edit, greedy: much of the answer stands in the prompt",
        f"Make this class refuse bad amounts and give the whole class:\n\n{_CODE}",
        SamplingParams(max_tokens=176),
    ),
    Question(
        "a chat answer, sampled at temperature 0.8, seed 7: the same noise gives the same text",
        "Explain how to boil an egg, step by step.",
        SamplingParams(max_tokens=128, temperature=0.8, top_p=0.95, seed=7),
    ),
    Question(
        "a surprise, temperature 1: hardly a word can be guessed",
        "Write a surprising first sentence for a novel about a lighthouse.",
        SamplingParams(max_tokens=80, temperature=1.0, seed=7),
    ),
)


def parser() -> Parser:
    """The flags of `pilotfish demo`."""
    parser = Parser("demo", "Plain and speculative decoding side by side: the same text, sooner.")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else")
    add_model_flags(parser)
    add_speculation_flags(parser)
    return parser


def run(args: Namespace) -> int:
    """Run the races; 1 where a text differs that may not."""
    with Progress(sys.stderr) as progress:
        fast = llm(args, progress)
    plain = fast.with_speculation(draft="none")
    races = [Race(plain, fast, question) for question in QUESTIONS]
    in_columns = is_terminal(sys.stdout) and fits(sys.stdout) and not args.json
    screen = Screen(sys.stdout) if in_columns else None
    view: View = _Silent() if args.json else _Columns(screen) if screen is not None else _Log()
    if not args.json:
        print(_heading(fast))
    with screen or nullcontext():
        for number, race in enumerate(races, 1):
            view.begin(race, f"{number}/{len(races)} {race.question.title}")
            for lane in race.run():
                view.update(race, lane)
            view.finish(race, _verdict(race, fast))
    total = pooled(races)
    print(json_line(_fields(fast, races, total)) if args.json else f"\n{_last_line(total)}")
    return 1 if any(_is_broken(race, fast) for race in races) else 0


def _is_broken(race: Race, fast: LLM) -> bool:
    """True where the texts differ although the contract says that they may not."""
    return not race.identical and fast.target.exactness == "bitwise" and _promises_text(race, fast)


def _promises_text(race: Race, fast: LLM) -> bool:
    return fast.speculation.verification == "coupled" or race.question.params.temperature == 0


def _heading(fast: LLM) -> str:
    target = fast.target
    machine = target.machine
    return (
        f"{target.name}, {target.options.used_weights} weights, "
        f"{target.options.used_activations} activations, {target.exactness}; "
        f"draft {fast.speculation.draft}, {machine['threads']} threads of {machine['cpu']}"
    )


def _verdict(race: Race, fast: LLM) -> str:
    result = race.result
    if race.identical:
        word = "identical"
    elif _is_broken(race, fast):
        word = "DIFFERENT"
    elif not _promises_text(race, fast):
        word = f"DIFFERENT (as it may: {fast.speculation.verification} keeps the law, not the text)"
    else:
        word = "DIFFERENT (as it may: numeric arithmetic has noise)"
    return (
        f"{word}, {result.tokens} tokens, plain {result.plain_seconds:.2f} s, "
        f"pilotfish {result.fast_seconds:.2f} s, speed-up decode {result.speedup_decode:.2f}, "
        f"end to end {result.speedup_e2e:.2f}"
    )


def _last_line(total: Result) -> str:
    return (
        f"identical {total.identical}/{total.races}, tokens {total.tokens}, accepted {total.accepted}, "
        f"corrected {total.corrected}, speed-up decode {total.speedup_decode:.2f}, "
        f"end to end {total.speedup_e2e:.2f}"
    )


def _fields(fast: LLM, races: list[Race], total: Result) -> dict[str, object]:
    target = fast.target
    return {
        **target.conditions,
        "draft": fast.speculation.draft,
        "verification": fast.speculation.verification,
        "prompts": [{**_race_fields(race), **_result_fields(race.result)} for race in races],
        **_result_fields(total),
        "identical_prompts": total.identical,
    }


def _race_fields(race: Race) -> dict[str, object]:
    return {
        "title": race.question.title,
        "prompt": race.question.prompt,
        "temperature": race.question.params.temperature,
        "text": race.fast.choice.text,
        "speculation": race.fast.choice.stats.as_dict(),
    }


def _result_fields(result: Result) -> dict[str, object]:
    return {
        "identical": result.identical == result.races,
        "tokens": result.tokens,
        "accepted_tokens": result.accepted,
        "corrected_rounds": result.corrected,
        "plain_seconds": round(result.plain_seconds, 4),
        "speculative_seconds": round(result.fast_seconds, 4),
        "plain_itl_ms": round(1000 * result.plain_latency, 3),
        "speculative_itl_ms": round(1000 * result.fast_latency, 3),
        "speedup_decode": round(result.speedup_decode, 3),
        "speedup_e2e": round(result.speedup_e2e, 3),
    }


class View(Protocol):
    """How a race is shown: `begin` it, `update` after every step, `finish` with a line about it."""

    def begin(self, race: Race, title: str) -> None: ...

    def update(self, race: Race, lane: Lane) -> None: ...

    def finish(self, race: Race, verdict: str) -> None: ...


class _Silent:
    def begin(self, race: Race, title: str) -> None: ...

    def update(self, race: Race, lane: Lane) -> None: ...

    def finish(self, race: Race, verdict: str) -> None: ...


class _Log:
    """Where there is no terminal: the prompt, the text once as the faster lane writes it, the verdict."""

    def __init__(self) -> None:
        self._shown = 0

    def begin(self, race: Race, title: str) -> None:
        self._shown = 0
        print(f"\n--- {title}\n{_quoted(race.question.prompt)}\n", flush=True)

    def update(self, race: Race, lane: Lane) -> None:
        text = race.fast.choice.text
        if lane is race.fast and len(text) > self._shown:
            print(text[self._shown :], end="", flush=True)
            self._shown = len(text)

    def finish(self, race: Race, verdict: str) -> None:
        print()
        if race.plain.choice.text != race.fast.choice.text:
            print(f"\nthe plain text:\n{race.plain.choice.text}")
        print(f"\n{verdict}", flush=True)


class _Columns:
    """Both texts as they grow; in the right one each token has the colour of who proposed it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._colour = has_colour(sys.stdout)

    def begin(self, race: Race, title: str) -> None:
        prompt = shown_safely(_quoted(race.question.prompt))
        print(f"\n{self._styled(title, BOLD)}\n{self._styled(prompt, DIM)}\n", flush=True)

    def update(self, race: Race, lane: Lane) -> None:
        if self._screen.due:
            lines = size(sys.stdout)[1] - 4
            self._screen.draw(self._lines(race, last=max(4, lines)))

    def finish(self, race: Race, verdict: str) -> None:
        colour = "\x1b[32m" if race.identical else "\x1b[31m"
        lines = [*self._lines(race), ""]
        if self._colour:
            lines.append(f"tokens by origin: {legend(race.fast.seen)}")
        self._screen.finish([*lines, self._styled(verdict, colour)])

    def _styled(self, text: str, style: str) -> str:
        return coloured(text, style) if self._colour else text

    def _lines(self, race: Race, last: int | None = None) -> list[str]:
        sides = [
            Column(self._head(race.plain), [(text, "") for text, _ in race.plain.pieces]),
            Column(self._head(race.fast), [(text, self._style(origin)) for text, origin in race.fast.pieces]),
        ]
        return columns(sides, width=size(sys.stdout)[0], last=last)

    def _style(self, origin: str) -> str:
        return origin_colour(origin) if self._colour else ""

    @staticmethod
    def _head(lane: Lane) -> str:
        return f"{lane.name:<10}{lane.rate:6.1f} tokens/s {lane.spent:6.2f} s"


def _quoted(prompt: str) -> str:
    return "\n".join(f"> {line}" for line in prompt.strip().split("\n"))

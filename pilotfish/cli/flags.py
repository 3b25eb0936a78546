"""Command-line flags, generated from the fields of the options that they fill.

    parser = Parser("generate", "continue a prompt")
    add_model_flags(parser); add_speculation_flags(parser); add_sampling_flags(parser)
    args = parser.parse_args(["--draft", "ngram", "--temperature", "0.8"])
    params = sampling_params(args)          # wrong values fail here, before the model is loaded
    model = llm(args, progress)

A flag that was not given leaves no trace in `args`, so the dataclasses keep the only defaults.
Everything wrong with flags is a BadFlag with one line that names the flag. Knows nothing of what
the commands do.
"""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any, NoReturn, TypeAlias, get_type_hints

from pilotfish.errors import BadRequest
from pilotfish.llm import LLM, SpeculationOptions
from pilotfish.model.load import ModelOptions
from pilotfish.sampling import SamplingParams

Options: TypeAlias = "type[ModelOptions | SpeculationOptions | SamplingParams]"

_RENAMED = {"max_tokens": "--max-new-tokens", "min_tokens": "--min-new-tokens"}

_MODEL_HELP = {
    "target": "the model: embedded (SmolLM2-135M-Instruct), a .gguf file, a Hugging Face folder, or from the"
    " hub org/name or org/name/file.gguf, with @revision",
    "exactness": "bitwise (the text is certain to be the same) or numeric; default: bitwise where proven",
    "weights": "stored (as the file has them), int8, int4 (embedding and head int8), f16 (rounded to it, "
    "held as f32) or f32; default: int8 for the embedded model, else stored",
    "activations": "int8 or f32; default: int8 with int8 or int4 weights, else f32",
    "threads": "CPU threads of a pass; default 0: all that this process may use",
    "cache_tokens": "tokens that the KV cache holds",
}
_SPECULATION_HELP = {
    "draft": "who guesses: none, ngram, suffix, recycle, replay:RATE, joined with +, or auto",
    "draft_length": "draft tokens a round: auto (what pays), or a number",
    "verification": "coupled (same text for a seed), rejection or block (same law)",
}
_SAMPLING_HELP = {
    "max_tokens": "most tokens to write",
    "min_tokens": "no end before so many tokens",
    "temperature": "0 is greedy",
    "top_k": "draw from the k likeliest tokens; 0 is off",
    "top_p": "draw from the likeliest tokens that hold this probability; 1 is off",
    "min_p": "drop tokens below this share of the likeliest one's probability; 0 is off",
    "repetition_penalty": "above 1: tokens of prompt and output become less likely; 1 is off",
    "presence_penalty": "taken once from tokens written before; 0 is off",
    "frequency_penalty": "taken for each time a token was written; 0 is off",
    "logit_bias": "add VALUE to the score of token ID; may be repeated",
    "stop": r"end the text before this string; \n, \t and \\ are understood; may be repeated",
    "ignore_eos": "do not end at an end-of-text token",
    "logprobs": "report the log-probabilities of so many best tokens at each position",
    "seed": "the same seed gives the same text; default: a new one, which is reported",
    "n": "independent choices",
}
TABLES: dict[Options, dict[str, str]] = {
    ModelOptions: _MODEL_HELP,
    SpeculationOptions: _SPECULATION_HELP,
    SamplingParams: _SAMPLING_HELP,
}


class BadFlag(BadRequest):
    """The command line is wrong; the program ends with status 2."""


class Parser(argparse.ArgumentParser):
    """The flags of one subcommand: no abbreviations, errors as BadFlag, unknown flags with a hint."""

    def __init__(self, command: str, description: str) -> None:
        super().__init__(prog=f"pilotfish {command}".rstrip(), description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        # argparse says "argument --seed: expected one argument"
        flag, colon, rest = message.removeprefix("argument ").partition(": ")
        if not (message.startswith("argument ") and colon):
            raise BadFlag(message)
        if rest == "expected one argument":
            rest = f"needs a value; where it begins with a dash write {flag}=VALUE"
        rest = re.sub("^ignored explicit argument", "takes no value, found", rest)
        rest = re.sub("^not allowed with argument (.*)", r"and \1 cannot be given together; drop one", rest)
        raise BadFlag(f"{flag} {rest}")

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Namespace | None = None
    ) -> Namespace:
        found, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown[0])
        return found

    def _refuse(self, word: str) -> NoReturn:
        help_ = f"See {self.prog} --help"
        if not word.startswith("-") or word in ("-", "--"):
            raise BadFlag(f"unexpected {word!r}; put several words in quotes. {help_}")
        flag = word.partition("=")[0]
        known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        begun = [name for name in known if name.startswith(flag)]
        near = begun[0] if begun else get_close_matches(flag, known, n=1, cutoff=0.0)[0]
        raise BadFlag(f"unknown flag {flag!r}; did you mean {near!r}? {help_}")


def add_model_flags(parser: Parser, *, without: Sequence[str] = ()) -> None:
    """--target --exactness --weights --activations --threads --cache-tokens; `without` names fields."""
    _add(parser, "model", ModelOptions, [name for name in _MODEL_HELP if name not in without])


def add_speculation_flags(parser: Parser) -> None:
    """--draft --draft-length --verification"""
    _add(parser, "speculation", SpeculationOptions)


def add_sampling_flags(
    parser: Parser, only: Sequence[str] = tuple(_SAMPLING_HELP), *, without: Sequence[str] = ()
) -> None:
    """--max-new-tokens, --temperature and the rest; `only` and `without` name fields."""
    _add(parser, "sampling", SamplingParams, [name for name in only if name not in without])


def model_options(args: Namespace) -> ModelOptions:
    """The model that the flags ask for. Raises BadFlag."""
    with _naming_flags(ModelOptions):
        return ModelOptions(**_given(args, ModelOptions))


def speculation_options(args: Namespace) -> SpeculationOptions:
    """How to speculate. Raises BadFlag; the name of the draft is checked by `llm`, before it loads."""
    with _naming_flags(SpeculationOptions):
        return SpeculationOptions(**_given(args, SpeculationOptions))


def sampling_params(args: Namespace, **defaults: Any) -> SamplingParams:  # noqa: ANN401 - a field's value
    """The sampling parameters that the flags ask for, else `defaults`. Raises BadFlag."""
    with _naming_flags(SamplingParams):
        return SamplingParams(**(defaults | _given(args, SamplingParams)))


def llm(args: Namespace, progress: Callable[[str], None], *, lasting: bool = True, **more: object) -> LLM:
    """The model, loaded, with its speculation. Raises BadFlag, BadModel, BadTokenizer or Unproven.

    `lasting` is False for a command that ends with one request. `more` are speculation options without a
    flag. `args.loaded`, where present, is a Target to use instead of loading one (for tests).
    """
    model, loaded = model_options(args), getattr(args, "loaded", None)
    speculation = _given(args, SpeculationOptions) | more
    with _naming_flags(SpeculationOptions):
        if loaded is not None:
            return LLM(loaded, **speculation)
        options: dict[str, object] = {field.name: getattr(model, field.name) for field in fields(model)}
        target = str(options.pop("target"))
        return LLM(target, progress=progress, lasting=lasting, **options, **speculation)


def check_vocab(params: SamplingParams, model: LLM) -> None:
    """Refuse token ids that the model does not have. Raises BadFlag."""
    with _naming_flags(SamplingParams):
        params.check_vocab(model.target.runner.vocab)


def check_text(name: str, text: str | None) -> None:
    """Refuse bytes that are no UTF-8, which Python hands on as lone surrogates. Raises BadFlag."""
    if text is not None and any("\ud800" <= char <= "\udfff" for char in text):
        raise BadFlag(f"{name} holds bytes that are no UTF-8 text; convert it first")


# One flag.


@dataclass(frozen=True)
class _Kind:
    """How a field's text is read, and how its value is shown in the help."""

    read: Callable[[str], object]
    shown: str


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ArgumentTypeError(f"needs a whole number, found {text!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"needs a number, found {text!r}") from None


def _length(text: str) -> str | int:
    try:
        return text if text == "auto" else int(text)
    except ValueError:
        raise ArgumentTypeError(f"needs auto or a whole number, found {text!r}") from None


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise ArgumentTypeError(f"needs ID=VALUE, as in 42=-5, found {text!r}") from None


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


def _unescaped(text: str) -> str:
    return re.sub(r"\\([ntr\\])", lambda match: _ESCAPES[match[1]], text)


_KINDS: dict[object, _Kind] = {
    int: _Kind(_whole, "N"),
    int | None: _Kind(_whole, "N"),
    float: _Kind(_number, "X"),
    str: _Kind(str, "NAME"),
    str | None: _Kind(str, "NAME"),
    str | int: _Kind(_length, "auto|N"),
    Mapping[int, float]: _Kind(_bias, "ID=VALUE"),
    tuple[str, ...]: _Kind(_unescaped, "TEXT"),
}


def flag_name(field: str) -> str:
    """The flag of a field: `top_k` -> `--top-k`."""
    return _RENAMED.get(field, "--" + field.replace("_", "-"))


def _add(parser: Parser, title: str, options: Options, only: Sequence[str] | None = None) -> None:
    group, hints = parser.add_argument_group(title), get_type_hints(options)
    defaults = {field.name: field.default for field in fields(options)}
    for name, text in TABLES[options].items():
        if only is not None and name not in only:
            continue
        flag, default = flag_name(name), defaults[name]
        if hints[name] is bool:
            group.add_argument(flag, dest=name, action="store_true", default=argparse.SUPPRESS, help=text)
            continue
        kind = _KINDS[hints[name]]
        repeated = "append" if hints[name] in (Mapping[int, float], tuple[str, ...]) else "store"
        # 0 and 1 mostly mean off, which the text says; the defaults worth reading are the others.
        shown = f" (default {default})" if isinstance(default, str | int) and default not in (0, 1) else ""
        group.add_argument(
            flag, dest=name, type=kind.read, action=repeated, metavar=kind.shown, default=argparse.SUPPRESS,
            help=(text + shown).replace("%", "%%"),
        )  # fmt: skip


def _given(args: Namespace, options: Options) -> dict[str, Any]:
    """The fields for which a flag was given."""
    found = {name: value for name, value in vars(args).items() if name in TABLES[options]}
    if options is SamplingParams and "logit_bias" in found:
        found["logit_bias"] = _once(found["logit_bias"])
    return found


def _once(pairs: Sequence[tuple[int, float]]) -> dict[int, float]:
    bias: dict[int, float] = {}
    for token, value in pairs:
        if bias.setdefault(token, value) != value:
            raise BadFlag(
                f"--logit-bias gives token {token} two values, {bias[token]:g} and {value:g}; keep one"
            )
    return bias


@contextmanager
def _naming_flags(options: Options) -> Iterator[None]:
    """Turn a BadRequest about a field into a BadFlag about its flag."""
    try:
        yield
    except BadFlag:
        raise
    except BadRequest as problem:
        message = str(problem)
        for name in TABLES[options]:
            # Names with an underscore are no ordinary words; the others count where they begin it.
            where = rf"\b{name}\b" if "_" in name else rf"^{name}\b"
            message = re.sub(where, flag_name(name), message)
        raise BadFlag(message) from None

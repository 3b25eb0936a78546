"""ChatTemplate: messages -> text, by the Jinja template that came with a model.

    template = ChatTemplate(source, names={"eos_token": "<|im_end|>"}, where="tokenizer_config.json")
    template.render([{"role": "user", "content": "hi"}], add_generation_prompt=True)

A template is foreign code: it runs in Jinja's immutable sandbox. The environment is the one of
transformers, so that the same template renders the same text. Knows nothing of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import CallBlock, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pilotfish.errors import BadRequest, BadTokenizer


class ChatTemplate:
    """A compiled template. Raises BadTokenizer where the source is no valid template."""

    def __init__(self, source: str, *, names: Mapping[str, str], where: str) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationBlock, loopcontrols]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        try:
            self._compiled = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as problem:
            raise BadTokenizer(
                f"{where}: the chat template is no valid Jinja ({problem}). Fetch the model again."
            ) from None
        self._names = dict(names)

    def render(self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool) -> str:
        """The text of a conversation. Raises BadRequest where the template refuses it."""
        try:
            return self._compiled.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._names,
            )
        except jinja2.TemplateError as problem:
            raise BadRequest(f"the model's chat template refuses these messages: {problem}") from None
        except Exception as problem:  # foreign code: what it may raise on odd messages is not bounded
            raise BadRequest(
                f"the model's chat template fails on these messages ({type(problem).__name__}: {problem})."
                " Give each message a role and a text as its content."
            ) from problem


class _GenerationBlock(Extension):
    """{% generation %} marks what an assistant wrote, for training; here it only shows its body."""

    tags = {"generation"}  # noqa: RUF012 - the name and type are Jinja's

    def parse(self, parser: Parser) -> Node | list[Node]:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_show"), [], [], body).set_lineno(line)

    def _show(self, caller: Callable[[], object]) -> str:
        return str(caller())


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML, which no model has seen in training.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)

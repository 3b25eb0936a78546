"""ChatTemplate: the environment of transformers, in a sandbox."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pilotfish.errors import BadRequest, BadTokenizer
from pilotfish.model.tokenizer.template import ChatTemplate

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "a<b"}, {"role": "assistant", "content": "é"}]


def render(source: str, **names: str) -> str:
    template = ChatTemplate(source, names=names, where="test.json")
    return template.render(MESSAGES, add_generation_prompt=True)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("  {% if true %}\nx{% endif %}\ny", "xy"),
        (
            "{{ messages | tojson }}",
            '[{"role": "user", "content": "a<b"}, {"role": "assistant", "content": "é"}]',
        ),
        ("{{ {'b': 1, 'a': 2} | tojson(indent=1, sort_keys=true) }}", '{\n "a": 2,\n "b": 1\n}'),
        ("{{ eos_token }}{{ bos_token }}", "</s>"),
        (
            "{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
            "user",
        ),
        ("a{% generation %}{{ messages[0].content }}{% endgeneration %}c", "aa<bc"),
        ("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", "TrueTrueTrue"),
    ],
)
def test_renders_as_transformers_does(source: str, text: str) -> None:
    assert render(source, eos_token="</s>") == text


def test_the_date_is_there() -> None:
    assert re.fullmatch(r"\d{4}-\d\d", render("{{ strftime_now('%Y-%m') }}"))


def test_a_broken_template_names_its_file() -> None:
    with pytest.raises(BadTokenizer, match=r"test\.json: the chat template is no valid Jinja"):
        ChatTemplate("{% for x in %}", names={}, where="test.json")


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("{{ raise_exception('roles must alternate') }}", "refuses these messages: roles must alternate"),
        ("{{ messages[0].nothing.deeper }}", "refuses these messages"),
        ("{{ 1 + messages }}", "fails on these messages .TypeError"),
        ("{{ ''.__class__.__mro__ }}", "refuses these messages"),
        ("{{ messages.append(1) }}", "refuses these messages"),
        ("{% for x in range(10 ** 9) %}{% endfor %}", "fails on these messages .OverflowError"),
    ],
)
def test_what_a_template_refuses_or_may_not_do(source: str, named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        render(source)

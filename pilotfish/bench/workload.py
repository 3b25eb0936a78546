"""Prompts to measure on: the built-in ones, or a JSONL file of `id, category, turns` (and `raw`).

    prompts = read_prompts(None, limit=1)                       # built in: one prompt of each category
    prompts = read_prompts(Path("spec_bench.jsonl"), first_turn=True)

A file is read as it is or refused with its name and line. Knows nothing of models or timings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

from pilotfish.errors import BadRequest

BUILT_IN = "the built-in prompts"
_SPEC_BENCH = frozenset({"translation", "summarization", "qa", "math_reasoning", "rag"})


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt: user turns, answered one after the other.

    raw  True: no chat template, the model continues the text itself
    """

    id: str
    category: str
    turns: tuple[str, ...]
    raw: bool = False


def read_prompts(path: Path | None, *, limit: int | None = None, first_turn: bool = False) -> list[Prompt]:
    """The prompts of a file (None: the built-in ones), in its order.

    limit       at most so many prompts of each category
    first_turn  drop all turns but the first
    Raises BadRequest, naming file and line.
    """
    if limit is not None and limit < 1:
        raise BadRequest(f"limit must be at least 1 prompt per category, found {limit}")
    name = BUILT_IN if path is None else str(path)
    text = (
        files("pilotfish.bench").joinpath("prompts.jsonl").read_text("utf-8") if path is None else _text(path)
    )
    prompts = _parse(text, name)
    if limit is not None:
        prompts = _limited(prompts, limit)
    if first_turn:
        prompts = [replace(prompt, turns=prompt.turns[:1]) for prompt in prompts]
    return prompts


def spread(prompts: Iterable[Prompt]) -> list[Prompt]:
    """The same prompts with the categories taking turns, so that any first few are of many kinds."""
    kinds: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        kinds.setdefault(prompt.category, []).append(prompt)
    return [prompt for row in zip_longest(*kinds.values()) for prompt in row if prompt is not None]


def _text(path: Path) -> str:
    if path.is_dir():
        raise BadRequest(f"{path} is a folder; prompts are read from a JSONL file, one prompt a line")
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as problem:
        line = path.read_bytes().count(b"\n", 0, problem.start) + 1
        raise BadRequest(
            f"{path}, line {line}: not UTF-8 (byte {problem.start}); save the file as UTF-8"
        ) from None
    except OSError as problem:
        raise BadRequest(f"cannot read prompts from {path}: {problem.strerror or problem}") from None


def _parse(text: str, name: str) -> list[Prompt]:
    prompts: list[Prompt] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        prompt = _prompt(line, where)
        if prompt.id in lines:
            raise BadRequest(
                f"{where}: the id {prompt.id!r} was used in line {lines[prompt.id]}; ids must differ"
            )
        lines[prompt.id] = number
        prompts.append(prompt)
    if not prompts:
        raise BadRequest(f"{name} holds no prompts; write one a line: {_EXAMPLE}")
    return prompts


_EXAMPLE = '{"id": "1", "category": "chat", "turns": ["Hello!"]}'


def _prompt(line: str, where: str) -> Prompt:
    try:
        row = json.loads(line)
    except ValueError as problem:
        raise BadRequest(f"{where}: not JSON ({problem}); a prompt is one line, such as {_EXAMPLE}") from None
    if not isinstance(row, Mapping):
        raise BadRequest(f"{where}: found {type(row).__name__}; a prompt is an object, such as {_EXAMPLE}")
    missing = [field for field in ("id", "category", "turns") if field not in row]
    if missing:
        raise BadRequest(
            f"{where}: lacks {', '.join(missing)}; found {', '.join(map(str, row)) or 'nothing'}"
        )
    identity, category, turns, raw = row["id"], row["category"], row["turns"], row.get("raw", False)
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        raise BadRequest(f"{where}: id must be a string or a whole number, found {identity!r}")
    if not isinstance(category, str) or not category:
        raise BadRequest(f"{where}: category must be a string, found {category!r}")
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise BadRequest(
            f"{where}: turns must be a list of texts, at least one and none empty, found {turns!r:.60}"
        )
    if not isinstance(raw, bool):
        raise BadRequest(f"{where}: raw must be true or false, found {raw!r}")
    if _is_spec_bench(row) and category not in _SPEC_BENCH:
        category = "mt_bench"  # Spec-Bench counts the eight MT-bench categories as one task
    return Prompt(id=str(identity), category=category, turns=tuple(turns), raw=raw)


def _is_spec_bench(row: Mapping[str, object]) -> bool:
    return str(row.get("source", "")).endswith("Spec-Bench") or str(row["id"]).startswith("spec_bench")


def _limited(prompts: list[Prompt], limit: int) -> list[Prompt]:
    seen: dict[str, int] = {}
    kept: list[Prompt] = []
    for prompt in prompts:
        seen[prompt.category] = seen.get(prompt.category, 0) + 1
        if seen[prompt.category] <= limit:
            kept.append(prompt)
    return kept

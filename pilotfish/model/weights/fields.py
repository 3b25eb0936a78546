"""Fields: typed reading of a model's metadata, with errors that name file and field.

    fields = Fields(json_object, where="config.json")
    fields.integer("hidden_size"), fields.number("rms_norm_eps", default=1e-6)

Knows nothing of what a field means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pilotfish.errors import BadModel


@dataclass(frozen=True)
class Fields:
    """A mapping that came from outside. Every reader raises BadModel for a wrong type, and for an
    absent field without a default; null counts as absent."""

    values: Mapping[str, Any]
    where: str

    def integer(self, name: str, *, default: int | None = None) -> int:
        """A whole number."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int):
            self._wrong(name, value, "a whole number")
        return value

    def number(self, name: str, *, default: float | None = None) -> float:
        """A number."""
        value = self._get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self._wrong(name, value, "a number")
        try:
            return float(value)
        except OverflowError:
            self._wrong(name, value, "a number")

    def boolean(self, name: str, *, default: bool | None = None) -> bool:
        """True or false."""
        value = self._get(name, default)
        if not isinstance(value, bool):
            self._wrong(name, value, "true or false")
        return value

    def text(self, name: str, *, default: str | None = None) -> str:
        """A string."""
        value = self._get(name, default)
        if not isinstance(value, str):
            self._wrong(name, value, "a text")
        return value

    def listing(self, name: str) -> list[Any]:
        """A list."""
        value = self._get(name, None)
        if not isinstance(value, list):
            self._wrong(name, value, "a list")
        return value

    def ids(self, name: str) -> frozenset[int]:
        """Token ids: absent, one number, or a list of numbers."""
        value = self.values.get(name)
        found = [] if value is None else value if isinstance(value, list) else [value]
        if not all(isinstance(token, int) and not isinstance(token, bool) for token in found):
            self._wrong(name, value, "a token id or a list of them")
        return frozenset(found)

    def has(self, name: str) -> bool:
        """True when the field is there and not null."""
        return self.values.get(name) is not None

    def refuse_unbuilt(self, allowed: Mapping[str, tuple[object, ...]], *, prefix: str = "") -> None:
        """Raises BadModel for a field whose value asks for arithmetic that is not built."""
        for name, harmless in allowed.items():
            value = self.values.get(prefix + name)
            if value is not None and not any(value == same for same in harmless):
                raise BadModel(
                    f"{self.where}: {prefix + name} is {_short(value)}, which pilotfish has not built"
                    f" (it runs {_choices(harmless)}). Choose a model without it."
                )

    def _get(self, name: str, default: object) -> object:
        value = self.values.get(name)
        if value is None:
            value = default
        if value is None:
            raise BadModel(f"{self.where}: the field {name!r} is missing. Fetch the model again.")
        return value

    def _wrong(self, name: str, value: object, expected: str) -> NoReturn:
        raise BadModel(f"{self.where}: {name!r} is {_short(value)}, expected {expected}. Fetch it again.")


def read_json(path: Path) -> Fields:
    """A JSON object from a file. Raises BadModel where the file is no JSON object."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadModel(
            f"{path}: there is no such file. A model folder needs config.json, tokenizer.json and"
            " *.safetensors; fetch the model again."
        ) from None
    except (OSError, ValueError, RecursionError) as problem:
        raise BadModel(f"{path}: not readable as JSON ({problem}). Fetch the model again.") from None
    if not isinstance(found, dict):
        raise BadModel(f"{path}: expected a JSON object, found {type(found).__name__}. Fetch it again.")
    return Fields(found, where=str(path))


def _choices(harmless: tuple[object, ...]) -> str:
    return " or ".join(["none", *(repr(value) for value in harmless)])


def _short(value: object) -> str:
    try:
        shown = repr(value)
    except ValueError:  # an integer with too many digits to print
        shown = f"an {type(value).__name__}"
    return shown if len(shown) <= 80 else f"{shown[:77]}..."

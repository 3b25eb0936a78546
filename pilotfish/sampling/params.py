"""Sampling parameters of one request, checked in full before anything runs.

    SamplingParams(temperature=0.7, top_p=0.95, stop="\\n\\n", seed=7)
    SamplingParams.from_mapping({"top_pp": 0.9})    # BadRequest: ... did you mean 'top_p'?

A parameter is served exactly or refused here by name. `check_vocab` refuses what only a
vocabulary can tell.

Knows nothing of tokenizers, models or HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilotfish.errors import BadRequest

# name -> lowest and highest allowed whole number; None is no bound
_WHOLE: dict[str, tuple[int, int | None]] = {
    "max_tokens": (0, None),
    "min_tokens": (0, None),
    "top_k": (0, None),
    "n": (1, 128),
}
# name -> lowest and highest allowed number, and the range in words
_REAL: dict[str, tuple[float, float, str]] = {
    "temperature": (0.0, math.inf, "a finite number >= 0 (0 is greedy)"),
    "top_p": (5e-324, 1.0, "in (0, 1] (1 is off)"),
    "min_p": (0.0, 1.0, "in [0, 1] (0 is off)"),
    # The law says > 0; beyond these bounds a float32 logit could overflow.
    "repetition_penalty": (1e-3, 1e3, "in [0.001, 1000] (1 is off)"),
    "presence_penalty": (-2.0, 2.0, "in [-2, 2] (0 is off)"),
    "frequency_penalty": (-2.0, 2.0, "in [-2, 2] (0 is off)"),
}
_BIAS_LIMIT = 100.0
_MAX_STOPS = 16


@dataclass(frozen=True, kw_only=True)
class SamplingParams:
    """How to turn logits into tokens, and when to end. Raises BadRequest on construction.

    top_k 0, top_p 1, min_p 0 and repetition_penalty 1 mean off; temperature 0 is greedy.
    banned_ids    ids that are never drawn
    stop          strings that end the text; they are cut from it
    stop_ids      ids that end the text, beside the model's own end-of-text ids
    logprobs      how many best tokens to report at each position; None reports nothing
    logprobs_mode "raw" (before processors) or "processed" (after them)
    seed          None lets the engine pick one; every reply says which was used
    n             how many independent choices
    """

    max_tokens: int = 256
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    banned_ids: frozenset[int] = frozenset()
    stop: tuple[str, ...] = ()
    stop_ids: frozenset[int] = frozenset()
    ignore_eos: bool = False
    logprobs: int | None = None
    logprobs_mode: str = "raw"
    seed: int | None = None
    n: int = 1

    def __post_init__(self) -> None:
        for name, (low, high) in _WHOLE.items():
            _whole(name, getattr(self, name), low, high)
        for name, (least, most, words) in _REAL.items():
            object.__setattr__(self, name, _real(name, getattr(self, name), least, most, words))
        if self.min_tokens > self.max_tokens:
            raise _refusal("min_tokens", self.min_tokens, f"at most max_tokens, which is {self.max_tokens}")
        if self.logprobs is not None:
            _whole("logprobs", self.logprobs, 0, 20)
        if self.seed is not None:
            _whole("seed", self.seed, 0, 2**64 - 1)
        if self.logprobs_mode not in ("raw", "processed"):
            raise _refusal("logprobs_mode", self.logprobs_mode, "'raw' or 'processed'")
        if not isinstance(self.ignore_eos, bool):
            raise _refusal("ignore_eos", self.ignore_eos, "true or false")
        object.__setattr__(self, "stop", _stops(self.stop))
        object.__setattr__(self, "banned_ids", _ids("banned_ids", self.banned_ids))
        object.__setattr__(self, "stop_ids", _ids("stop_ids", self.stop_ids))
        object.__setattr__(self, "logit_bias", _bias(self.logit_bias))

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> SamplingParams:
        """Parameters by name, as a config file or a request body holds them."""
        known = [entry.name for entry in fields(cls)]
        for name in mapping:
            if name not in known:
                near = get_close_matches(str(name), known, n=1, cutoff=0.0)[0]
                raise BadRequest(
                    f"unknown sampling parameter {name!r}; did you mean {near!r}? Known: {', '.join(known)}"
                )
        return cls(**mapping)

    def check_vocab(self, vocab: int) -> None:
        """Refuse ids that the model does not have; call it once, before the request starts."""
        for name in ("logit_bias", "banned_ids", "stop_ids"):
            for token in getattr(self, name):
                if token >= vocab:
                    raise _refusal(name, token, f"ids below the vocabulary's size, {vocab}")

    @cached_property
    def bias_arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """`logit_bias` as ids and values."""
        ids = np.array(list(self.logit_bias.keys()), dtype=np.int64)
        return ids, np.array(list(self.logit_bias.values()), dtype=np.float32)

    @cached_property
    def banned_array(self) -> NDArray[np.int64]:
        """`banned_ids`, ascending."""
        return np.array(sorted(self.banned_ids), dtype=np.int64)

    @property
    def penalises(self) -> bool:
        """True when some penalty needs to know the past."""
        return self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0


def _refusal(name: str, value: object, allowed: str) -> BadRequest:
    return BadRequest(f"{name} = {value!r} cannot be served; allowed: {allowed}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(name: str, value: object, low: int, high: int | None) -> None:
    words = f"a whole number >= {low}" if high is None else f"a whole number in [{low}, {high}]"
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refusal(name, value, words)
    if value < low or (high is not None and value > high):
        raise _refusal(name, value, words)


def _real(name: str, value: object, low: float, high: float, words: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _refusal(name, value, words)
    if not math.isfinite(value) or not low <= value <= high:
        raise _refusal(name, value, words)
    return float(value)


def _ids(name: str, value: object) -> frozenset[int]:
    words = "a set of token ids, whole numbers >= 0"
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise _refusal(name, value, words)
    ids = list(value)
    if not all(_is_whole(token) and token >= 0 for token in ids):
        raise _refusal(name, value, words)
    return frozenset(ids)


def _stops(value: object) -> tuple[str, ...]:
    words = f"a string, or at most {_MAX_STOPS} strings, none of them empty"
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, list | tuple) or len(value) > _MAX_STOPS:
        raise _refusal("stop", value, words)
    if not all(isinstance(text, str) and text for text in value):
        raise _refusal("stop", value, words)
    return tuple(value)


def _bias(value: object) -> dict[int, float]:
    words = f"a mapping of token ids (whole numbers >= 0) to numbers in [-{_BIAS_LIMIT:g}, {_BIAS_LIMIT:g}]"
    if not isinstance(value, Mapping):
        raise _refusal("logit_bias", value, words)
    for token in value:
        if not _is_whole(token) or token < 0:
            raise _refusal("logit_bias", value, words)
    return {
        token: _real("logit_bias", bias, -_BIAS_LIMIT, _BIAS_LIMIT, words) for token, bias in value.items()
    }

"""Rotary: which angle a position turns each pair of a head's numbers by.

    rotary = Rotary(theta=500_000.0, kind="llama3", factor=8.0, original=8192, low=1.0, high=4.0)
    rotary.inverse(64)      # [32] float32: radians per position
    rotary.magnitude        # what cosines and sines are multiplied by

Source: Su et al. 2021 (arXiv 2104.09864); "yarn" is Peng et al. 2023 (arXiv 2309.00071), its ramp in
section 3.2 and its magnitude in equation 22; "llama3" is the rule published with Llama 3.1. All
arithmetic is float32, as in the reference implementations. Knows nothing of files or graphs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Frequencies = npt.NDArray[np.float32]
LEAST, MOST = 1e-9, 1e18  # of every number here: far outside any model, far inside float32
KINDS = ("default", "linear", "llama3", "yarn")


@dataclass(frozen=True, kw_only=True)
class Rotary:
    """Rotary positions of one kind of layer.

    theta      the base; pair i turns by theta ** (-2 i / head_dim) a position
    kind       "default"; "linear": all `factor` times slower; "llama3" and "yarn": slow pairs only
    factor     how many times slower
    original   the context that the model had before it was stretched (llama3, yarn)
    low, high  turns over that context between which the slowing fades (llama3: its frequency
               factors; yarn: beta_slow, beta_fast)
    rounded    yarn: the fading begins and ends at whole pairs
    magnitude  yarn: attention temperature, on cosines and sines
    divisors   a GGUF's own table, one divisor for every pair; empty without
    """

    theta: float
    kind: str = "default"
    factor: float = 1.0
    original: int = 0
    low: float = 1.0
    high: float = 32.0
    rounded: bool = True
    magnitude: float = 1.0
    divisors: tuple[float, ...] = ()

    def problem(self) -> str | None:
        """What is impossible about these numbers, or None."""
        positive = {"rope_theta": self.theta, "the rope factor": self.factor, "its magnitude": self.magnitude}
        if self.kind in ("llama3", "yarn"):
            positive |= {"its original context": self.original, "low": self.low, "high": self.high}
        for name, value in positive.items():
            if not LEAST <= value <= MOST:
                return f"{name} of the rotary positions is {value}, expected a positive number up to {MOST:g}"
        if self.kind == "yarn" and self.theta <= 1:
            return f"rope_theta is {self.theta}, expected more than 1 where rotary positions are yarn's"
        if any(not 0 < divisor < math.inf for divisor in self.divisors):
            return "a divisor of the rotary positions is no positive number"
        if self.kind == "llama3" and self.high <= self.low:
            return f"rotary positions fade from {self.low} to {self.high} turns, which is no range"
        return None

    def inverse(self, head_dim: int) -> Frequencies:
        """Radians per position of each pair: [head_dim / 2] float32."""
        steps = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
        plain: Frequencies = (np.float32(1) / np.float32(self.theta) ** steps).astype(np.float32)
        if self.divisors:
            return _float32(plain / np.array(self.divisors, np.float32))
        slow = _float32(plain / np.float32(self.factor))
        if self.kind == "linear":
            return slow
        if self.kind == "llama3":
            kept = self._llama3_kept(plain)
        elif self.kind == "yarn":
            kept = self._yarn_kept(head_dim)
        else:
            return plain
        return _float32((1 - kept) * slow + kept * plain)

    def _llama3_kept(self, plain: Frequencies) -> Frequencies:
        """How much of its own speed each pair keeps: all above `high` turns, nothing below `low`."""
        turns = np.float32(self.original) * plain / np.float32(2 * math.pi)
        return _float32(np.clip((turns - self.low) / (self.high - self.low), 0, 1))

    def _yarn_kept(self, head_dim: int) -> Frequencies:
        first, last = (self._pair_of(turns, head_dim) for turns in (self.high, self.low))
        if self.rounded:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, head_dim - 1)
        width = last - first or 0.001
        ramp = (np.arange(head_dim // 2, dtype=np.float32) - np.float32(first)) / np.float32(width)
        return _float32(1 - np.clip(ramp, 0, 1))

    def _pair_of(self, turns: float, head_dim: int) -> float:
        """The (fractional) pair that makes so many turns over the original context."""
        return head_dim * math.log(self.original / (turns * 2 * math.pi)) / (2 * math.log(self.theta))


def _float32(values: npt.NDArray[Any]) -> Frequencies:
    return values.astype(np.float32, copy=False)


def yarn_magnitude(factor: float, scale: float = 1.0) -> float:
    """1 + 0.1 ln(factor): YaRN, equation 22."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0

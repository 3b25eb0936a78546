"""Tensor: one weight as its file stores it, dense or packed in groups.

    tensor = checkpoint.tensor("model.layers.0.mlp.up_proj.weight")
    if isinstance(tensor, Grouped):
        tensor.codes, tensor.scale, tensor.zero     # value = (code - zero) * scale
    tensor.to_float32()                             # [out, in]

Knows nothing of files, models or runtimes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Dense:
    """A plain array, float32 or float16 (bfloat16 is widened to float32). Often a read-only view
    of the mapped file."""

    array: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, [out, in] for a matrix."""
        return tuple(self.array.shape)

    def rows(self, part: slice) -> Dense:
        """Some rows, not copied."""
        return Dense(self.array[part])

    def to_float32(self) -> Array:
        """The values; a view where they are float32 already."""
        return self.array.astype(np.float32, copy=False)


@dataclass(frozen=True, eq=False)
class Grouped:
    """A matrix of small integers with one scale, and perhaps one zero point, for every `group`
    values of a row: value = (code - zero) * scale.

    codes  [out, in] uint8 with a zero point, int8 without
    scale  [out, in / group] float32
    zero   [out, in / group] float32, rarely whole, or uint8; None means 0
    bits   how many bits a code needs
    """

    codes: Array
    scale: Array
    zero: Array | None
    group: int
    bits: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, [out, in]."""
        return tuple(self.codes.shape)

    def rows(self, part: slice) -> Grouped:
        """Some rows, not copied."""
        zero = None if self.zero is None else self.zero[part]
        return replace(self, codes=self.codes[part], scale=self.scale[part], zero=zero)

    def to_float32(self) -> Array:
        """The values, [out, in]."""
        rows, columns = self.codes.shape
        values = self.codes.astype(np.float32).reshape(rows, columns // self.group, self.group)
        if self.zero is not None:
            values -= self.zero[:, :, None]
        values *= self.scale[:, :, None]
        return values.reshape(rows, columns)


Tensor: TypeAlias = Dense | Grouped

"""unpack: the bytes of a GGUF tensor -> Dense or Grouped, exact to the file.

    unpack(rows, GGMLQuantizationType.Q4_1)     # rows: [out, bytes of one row] uint8

Q4_0, Q4_1, Q8_0 and Q6_K stay packed; the other kinds become float32, as the `gguf` package
dequantises them. Knows nothing of files or models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import gguf
import numpy as np
from gguf.constants import GGMLQuantizationType as Kind

from pilotfish.errors import BadModel
from pilotfish.model.weights.tensors import Array, Dense, Grouped, Tensor


def unpack(rows: Array, kind: Kind) -> Tensor:
    """The tensor that a block of stored rows holds. Raises BadModel where a scale is no number."""
    if kind == Kind.F32:
        return Dense(rows.view(np.float32))
    if kind == Kind.F16:
        return Dense(rows.view(np.float16))
    if kind in PACKED and rows.ndim == 2:
        # A damaged block can hold any bits as its scale; they are refused below, not warned about.
        with np.errstate(all="ignore"):
            packed = PACKED[kind](rows)
        for part in (packed.scale, packed.zero):
            if part is not None and not np.isfinite(part).all():
                raise BadModel(f"{kind.name} blocks with an infinite or undefined scale: damaged weights")
        return packed
    try:
        values = gguf.quants.dequantize(np.ascontiguousarray(rows), kind)
    except NotImplementedError:
        known = ", ".join(sorted(known.name for known in gguf.quants._type_traits))
        raise BadModel(f"no decoder for {kind.name}. Choose a file in one of F32, F16, {known}") from None
    return Dense(values.astype(np.float32, copy=False))


def _blocks(rows: Array, size: int) -> Array:
    return rows.reshape(rows.shape[0], -1, size)


def _halves(blocks: Array, at: int) -> Array:
    """The float16 at byte `at` of each block, widened: [out, blocks]."""
    return np.ascontiguousarray(blocks[:, :, at : at + 2]).view(np.float16)[:, :, 0].astype(np.float32)


def _nibbles(stored: Array) -> Array:
    """[out, blocks, 16] bytes -> [out, blocks, 32]: all low halves of a block, then all high ones."""
    codes = np.empty((*stored.shape[:2], 2, stored.shape[2]), np.uint8)
    np.bitwise_and(stored, 15, out=codes[:, :, 0])
    np.right_shift(stored, 4, out=codes[:, :, 1])
    return codes.reshape(*stored.shape[:2], -1)


def _q4_0(rows: Array) -> Grouped:
    blocks = _blocks(rows, 18)
    codes = _nibbles(blocks[:, :, 2:]).view(np.int8)
    codes -= np.int8(8)
    return Grouped(codes.reshape(len(rows), -1), _halves(blocks, 0), None, group=32, bits=4)


def _q4_1(rows: Array) -> Grouped:
    blocks = _blocks(rows, 20)
    codes = _nibbles(blocks[:, :, 4:])
    scale, offset = _halves(blocks, 0), _halves(blocks, 2)
    flat = scale == 0
    if flat.any():
        # Such a group holds one value, the offset, whatever its codes are.
        codes[flat] = 0
        scale[flat] = np.abs(offset[flat])
    zero = np.where(flat, -np.sign(offset), -offset / np.where(flat, np.float32(1), scale))
    return Grouped(codes.reshape(len(rows), -1), scale, zero.astype(np.float32), group=32, bits=4)


def _q8_0(rows: Array) -> Grouped:
    blocks = _blocks(rows, 34)
    codes = np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8)
    return Grouped(codes.reshape(len(rows), -1), _halves(blocks, 0), None, group=32, bits=8)


def _q6_k(rows: Array) -> Grouped:
    blocks = _blocks(rows, 210)
    # Each half of 128 values: 64 bytes of low nibbles, 32 bytes holding four 2-bit high parts.
    low = blocks[:, :, :128].reshape(len(rows), -1, 2, 1, 64)
    high = blocks[:, :, 128:192].reshape(len(rows), -1, 2, 1, 32)
    four = np.concatenate([low & 15, low >> 4], axis=3).reshape(len(rows), -1, 2, 4, 32)
    two = (high >> np.array([0, 2, 4, 6], np.uint8).reshape(4, 1)) & 3
    codes = (four | (two << 4)).view(np.int8) - np.int8(32)
    scale = blocks[:, :, 192:208].view(np.int8).astype(np.float32) * _halves(blocks, 208)[:, :, None]
    return Grouped(codes.reshape(len(rows), -1), scale.reshape(len(rows), -1), None, group=16, bits=6)


PACKED: Mapping[Kind, Callable[[Array], Grouped]] = {
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q8_0: _q8_0,
    Kind.Q6_K: _q6_k,
}

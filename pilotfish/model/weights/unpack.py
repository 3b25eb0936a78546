"""unpack: the bytes of a GGUF tensor -> Dense or Grouped, exact to the file.

    unpack(rows, GGMLQuantizationType.Q4_1)     # rows: [out, bytes of one row] uint8

The kinds in PACKED stay packed: the numbers of the file, or, where a value is scale * code + offset,
the same value within one float32 rounding of the largest. F16 stays as it is; BF16 and the rarer
kinds become float32, as the `gguf` package dequantises them. Knows nothing of files or models.
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


def _bits(stored: Array, count: int, *, each: int) -> Array:
    """[..., bytes] -> [..., count, bytes]: part n is the n-th `each` bits of every byte, low first."""
    shifts = np.arange(0, count * each, each, dtype=np.uint8).reshape(count, 1)
    parts: Array = (stored[..., None, :] >> shifts) & np.uint8((1 << each) - 1)
    return parts


def _symmetric(codes: Array, scale: Array, *, bits: int) -> Grouped:
    """codes [out, group, value] int8, scale [out, group]."""
    flat = codes.reshape(len(codes), -1)
    return Grouped(flat, scale.reshape(len(codes), -1), None, group=codes.shape[-1], bits=bits)


def _with_offset(codes: Array, scale: Array, offset: Array, *, bits: int) -> Grouped:
    """scale * code + offset, as (code - zero) * scale: codes [out, group, value] uint8."""
    flat = scale == 0
    if flat.any():
        # Such a group holds one value, the offset, whatever its codes are.
        codes[flat] = 0
        scale = np.where(flat, np.abs(offset), scale)
    zero = np.where(flat, -np.sign(offset), -offset / np.where(flat, np.float32(1), scale))
    packed = codes.reshape(len(codes), -1)
    return Grouped(packed, scale, zero.astype(np.float32), group=codes.shape[-1], bits=bits)


def _fifth_bits(stored: Array) -> Array:
    """[out, blocks, 4] bytes -> [out, blocks, 32]: the bits, at their place in a code (16)."""
    bits = np.unpackbits(np.ascontiguousarray(stored), axis=-1, bitorder="little")
    return np.left_shift(bits, 4, out=bits)


def _q4_0(rows: Array) -> Grouped:
    blocks = _blocks(rows, 18)
    return _symmetric(_nibbles(blocks[:, :, 2:]).view(np.int8) - np.int8(8), _halves(blocks, 0), bits=4)


def _q4_1(rows: Array) -> Grouped:
    blocks = _blocks(rows, 20)
    return _with_offset(_nibbles(blocks[:, :, 4:]), _halves(blocks, 0), _halves(blocks, 2), bits=4)


def _q5_0(rows: Array) -> Grouped:
    blocks = _blocks(rows, 22)
    codes = _nibbles(blocks[:, :, 6:]) | _fifth_bits(blocks[:, :, 2:6])
    return _symmetric(codes.view(np.int8) - np.int8(16), _halves(blocks, 0), bits=5)


def _q5_1(rows: Array) -> Grouped:
    blocks = _blocks(rows, 24)
    codes = _nibbles(blocks[:, :, 8:]) | _fifth_bits(blocks[:, :, 4:8])
    return _with_offset(codes, _halves(blocks, 0), _halves(blocks, 2), bits=5)


def _q8_0(rows: Array) -> Grouped:
    blocks = _blocks(rows, 34)
    return _symmetric(np.ascontiguousarray(blocks[:, :, 2:]).view(np.int8), _halves(blocks, 0), bits=8)


def _q2_k(rows: Array) -> Grouped:
    blocks = _blocks(rows, 84)
    # 16 bytes of scale and minimum; then each 32 bytes hold four rows of 32 codes.
    codes = _bits(blocks[:, :, 16:80].reshape(len(rows), -1, 2, 32), 4, each=2)
    scale = (blocks[:, :, :16] & 15) * _halves(blocks, 80)[:, :, None]
    offset = (blocks[:, :, :16] >> 4) * -_halves(blocks, 82)[:, :, None]
    groups = (len(rows), -1)
    return _with_offset(codes.reshape(*groups, 16), scale.reshape(groups), offset.reshape(groups), bits=2)


def _q3_k(rows: Array) -> Grouped:
    blocks = _blocks(rows, 110)
    # One byte of the mask holds the third bit of eight codes that lie 32 apart.
    third = _bits(blocks[:, :, :32], 8, each=1).reshape(len(rows), -1, 2, 4, 32)
    codes = _bits(blocks[:, :, 32:96].reshape(len(rows), -1, 2, 32), 4, each=2) | third << 2
    low = _bits(blocks[:, :, 96:104], 2, each=4).reshape(len(rows), -1, 16)
    high = _bits(blocks[:, :, 104:108], 4, each=2).reshape(len(rows), -1, 16)
    scale = ((low | high << 4).view(np.int8) - np.int8(32)) * _halves(blocks, 108)[:, :, None]
    return _symmetric(codes.view(np.int8).reshape(len(rows), -1, 16) - np.int8(4), scale, bits=3)


def _k_scales(blocks: Array) -> tuple[Array, Array]:
    """Scales and offsets [out, groups] of the eight groups of 32 in Q4_K and Q5_K."""
    first, second, both = np.split(blocks[:, :, 4:16], 3, axis=2)
    # Six bits each; those of the last four groups are spread over two bytes.
    scale = np.concatenate([first & 63, (both & 15) | (first >> 6) << 4], axis=2)
    least = np.concatenate([second & 63, both >> 4 | (second >> 6) << 4], axis=2)
    scales = scale * _halves(blocks, 0)[:, :, None]
    offsets = least * -_halves(blocks, 2)[:, :, None]
    return scales.reshape(len(blocks), -1), offsets.reshape(len(blocks), -1)


def _q4_k(rows: Array) -> Grouped:
    blocks = _blocks(rows, 144)
    codes = _bits(blocks[:, :, 16:].reshape(len(rows), -1, 4, 32), 2, each=4)
    return _with_offset(codes.reshape(len(rows), -1, 32), *_k_scales(blocks), bits=4)


def _q5_k(rows: Array) -> Grouped:
    blocks = _blocks(rows, 176)
    low = _bits(blocks[:, :, 48:].reshape(len(rows), -1, 4, 32), 2, each=4)
    high = _bits(blocks[:, :, 16:48], 8, each=1)
    codes = low.reshape(len(rows), -1, 8, 32) | high << 4
    return _with_offset(codes.reshape(len(rows), -1, 32), *_k_scales(blocks), bits=5)


def _q6_k(rows: Array) -> Grouped:
    blocks = _blocks(rows, 210)
    # Each half of 128 values: 64 bytes of low nibbles, 32 bytes holding four 2-bit high parts.
    low = _bits(blocks[:, :, :128].reshape(len(rows), -1, 2, 64), 2, each=4)
    high = _bits(blocks[:, :, 128:192].reshape(len(rows), -1, 2, 32), 4, each=2)
    codes = low.reshape(high.shape) | high << 4
    scale = blocks[:, :, 192:208].view(np.int8) * _halves(blocks, 208)[:, :, None]
    return _symmetric(codes.view(np.int8).reshape(len(rows), -1, 16) - np.int8(32), scale, bits=6)


PACKED: Mapping[Kind, Callable[[Array], Grouped]] = {
    Kind.Q4_0: _q4_0,
    Kind.Q4_1: _q4_1,
    Kind.Q5_0: _q5_0,
    Kind.Q5_1: _q5_1,
    Kind.Q8_0: _q8_0,
    Kind.Q2_K: _q2_k,
    Kind.Q3_K: _q3_k,
    Kind.Q4_K: _q4_k,
    Kind.Q5_K: _q5_k,
    Kind.Q6_K: _q6_k,
}

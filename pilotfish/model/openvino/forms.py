"""Weight forms: named tensors in the form asked for, as graph constants that stay packed.

The pattern Constant -> Convert -> [Subtract zero] -> Multiply scale -> Reshape -> MatMul compiles
to one matrix product over packed weights. `stored` keeps the file's own numbers; `int8` and `int4`
round every matrix again in groups of 32; `f16` rounds to float16 values; `f32` widens.

    formed = in_form(checkpoint, "int4")                         # embedding and head int8
    node = constant(formed.tensor("lm_head.weight"))             # [out, in] float32

What stays packed on the CPU plugin, and the bits of a weight with its group's share of scale and zero:

    | stored as            | constant, group                | bits | is kept packed as             |
    |----------------------|--------------------------------|------|-------------------------------|
    | Q4_0                 | i4, 32                         | 5    | matrix product, embedding     |
    | Q4_1, Q4_K           | u4, 32, f32 zero               | 6    | both                          |
    | Q5_0, Q8_0           | i8, 32                         | 9    | both                          |
    | Q5_1, Q5_K           | u8, 32, f32 zero               | 10   | both                          |
    | Q2_K                 | u2, 16, f32 zero               | 6    | product; embedding: as u4 (8) |
    | Q3_K                 | i4, 16                         | 6    | both                          |
    | Q6_K                 | i8, 16                         | 10   | both                          |
    | F32, F16, BF16, f16  | f32                            | 32   | nothing; see below            |
    | int8 / int4          | i8, 32 / u4, 32, u8 zero       | 9 / 5.25 | both                      |

A u2 constant under a Gather is folded to f32, hence the u4. float16 and bfloat16 constants under a
Convert are folded to f32 too; marked as decompression (a saved `compress_to_fp16` model) they survive
compiling, and the first pass then makes the f32 copy all the same, beside the float16 one: so they are
widened here, on purpose. Knows nothing of architectures but the names of embedding and head.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import openvino as ov
import openvino.opset15 as ops

from pilotfish.errors import BadRequest
from pilotfish.model.weights import Checkpoint, Dense, Entry, Grouped, Tensor

FORMS = ("stored", "int8", "int4", "f16", "f32")
VOCABULARY = ("model.embed_tokens.weight", "lm_head.weight")  # a row for each token
_GROUP = 32
_PART = 1 << 15  # values of a matrix that are rounded at once, so that little is held beside it


def in_form(checkpoint: Checkpoint, form: str) -> Checkpoint:
    """The same checkpoint with its matrices in a form of FORMS, made when they are asked for.

    int4 leaves embedding and head at int8, as is usual: they suffer most from rounding. Everything that
    is no matrix stays as it is stored.
    """
    entries = dict(checkpoint.entries)
    for name, entry in entries.items():
        if len(entry.shape) == 2:
            is_vocabulary = name in VOCABULARY
            read = partial(_read, entry, form, is_vocabulary)
            # A tied one is embedding and head, which share its memory.
            shared = is_vocabulary and checkpoint.config.tied_embeddings
            entries[name] = replace(entry, read=cache(read) if shared else read)
    return replace(checkpoint, entries=entries)


def _read(entry: Entry, form: str, is_vocabulary: bool) -> Tensor:
    tensor = formed(entry.read(), "int8" if form == "int4" and is_vocabulary else form)
    if is_vocabulary and isinstance(tensor, Grouped):
        return replace(tensor, bits=max(tensor.bits, 4))  # not u2, which is no embedding
    return tensor


def formed(tensor: Tensor, form: str) -> Tensor:
    """A matrix in a form of FORMS (checked at the front door). Raises BadRequest for what float16 cannot
    hold."""
    if form == "stored":
        return tensor
    height, width = tensor.shape
    step = max(1, _PART // width)
    parts = (tensor.rows(slice(first, first + step)).to_float32() for first in range(0, height, step))
    if form in _ROUNDED:
        return stack([_ROUNDED[form](part) for part in parts])
    values = np.empty((height, width), np.float32)
    for first, part in zip(range(0, height, step), parts, strict=True):
        values[first : first + step] = _half(part) if form == "f16" else part
    return Dense(values)


def _half(values: np.ndarray) -> np.ndarray:
    largest = np.abs(values).max()
    if largest > np.finfo(np.float16).max:
        raise BadRequest(f"f16 weights hold up to 65,504, one is {largest:.7g}; ask for stored or f32")
    return values.astype(np.float16)


def constant(tensor: Tensor) -> ov.Output:
    """The matrix as a node [out, in] float32 that stays packed in memory where it can."""
    if isinstance(tensor, Dense):
        return _constant(tensor.to_float32()).output(0)
    return _packed(tensor)


def int8_groups(matrix: np.ndarray) -> Grouped:
    """Round a matrix [out, in] to int8 in groups of 32 along its input, symmetric."""
    grouped = _groups(matrix)
    scale = np.abs(grouped).max(axis=-1) / np.float32(127)
    scale[scale == 0] = 1
    codes = np.rint(grouped / scale[..., None]).astype(np.int8)
    return Grouped(codes.reshape(matrix.shape), scale, None, group=grouped.shape[-1], bits=8)


def int4_groups(matrix: np.ndarray) -> Grouped:
    """Round a matrix [out, in] to 4 bits in groups of 32 along its input, with a whole zero point.

    The squared error over that of all weights, for normally distributed ones: 0.0065, against 0.0074
    for symmetric codes (0.0061 with a float zero point, whose activations are never quantised).
    """
    grouped = _groups(matrix)
    low = np.minimum(grouped.min(axis=-1), 0)
    scale = (np.maximum(grouped.max(axis=-1), 0) - low) / np.float32(15)
    scale[scale == 0] = 1
    zero = np.rint(-low / scale)
    codes = np.rint(grouped / scale[..., None])
    codes += zero[..., None]
    codes = np.clip(codes, 0, 15, out=codes).astype(np.uint8).reshape(matrix.shape)
    return Grouped(codes, scale, zero.astype(np.uint8), group=grouped.shape[-1], bits=4)


_ROUNDED = {"int8": int8_groups, "int4": int4_groups}


def _groups(matrix: np.ndarray) -> np.ndarray:
    out, width = matrix.shape
    group = _GROUP if width % _GROUP == 0 else width
    return matrix.reshape(out, width // group, group)


def stack(tensors: list[Tensor]) -> Tensor:
    """Several matrices over one input as one, rows below rows, packed where all are."""
    grouped = [tensor for tensor in tensors if isinstance(tensor, Grouped)]
    if len(grouped) < len(tensors):
        return Dense(np.concatenate([tensor.to_float32() for tensor in tensors]))
    if len({(one.group, one.bits, one.zero is None) for one in grouped}) > 1:
        # Such as Q4_K beside Q6_K.
        grouped = [_unsigned(one, group=min(other.group for other in grouped)) for one in grouped]
    zeros = [one.zero for one in grouped if one.zero is not None]
    return Grouped(
        codes=np.concatenate([one.codes for one in grouped]),
        scale=np.concatenate([one.scale for one in grouped]),
        zero=np.concatenate(zeros) if zeros else None,
        group=grouped[0].group,
        bits=max(one.bits for one in grouped),
    )


def _unsigned(tensor: Grouped, *, group: int) -> Grouped:
    """The same numbers with a zero point and smaller groups."""
    times = tensor.group // group
    codes, zero = tensor.codes, tensor.zero
    if zero is None:
        middle = 1 << (tensor.bits - 1)
        codes = (codes.view(np.uint8) + np.uint8(middle)).astype(np.uint8)  # wraps: -middle is 0 now
        zero = np.full(tensor.scale.shape, middle, np.float32)
    return Grouped(
        codes=codes,
        scale=tensor.scale.repeat(times, axis=1),
        zero=zero.repeat(times, axis=1),
        group=group,
        bits=tensor.bits,
    )


def _packed(tensor: Grouped) -> ov.Output:
    out, width = tensor.codes.shape
    shape = [out, width // tensor.group, tensor.group]
    node = ops.convert(_codes(tensor, shape), "f32")
    if tensor.zero is not None:
        # A float zero point stays float32: float16 or rounding would not be exact.
        zero = ops.constant(tensor.zero[..., None])
        node = ops.subtract(node, zero if tensor.zero.dtype == np.float32 else ops.convert(zero, "f32"))
    node = ops.multiply(node, ops.constant(tensor.scale[..., None]))
    return ops.reshape(node, ops.constant(np.array([out, width], np.int64)), False).output(0)


def _constant(values: np.ndarray) -> ov.Node:
    """Around the array's own memory where the runtime takes it: not of files mapped for reading."""
    return ops.constant(values, shared_memory=values.flags.writeable)


def _codes(tensor: Grouped, shape: list[int]) -> ov.Node:
    signed = tensor.codes.dtype == np.int8
    bits = next(bits for bits in (2, 4, 8) if bits >= tensor.bits and not (signed and bits == 2))
    each = 8 // bits  # codes in a byte, the first one lowest
    if each == 1 or tensor.codes.size % each:
        return _constant(np.ascontiguousarray(tensor.codes).reshape(shape))
    flat = tensor.codes.view(np.uint8).reshape(-1, each) & np.uint8((1 << bits) - 1)
    joined = flat[:, 0]
    for place in range(1, each):
        joined = joined | flat[:, place] << np.uint8(place * bits)
    # A tensor around numpy's memory would outlive it; this one owns its bytes.
    kind = ov.Type.u2 if bits == 2 else ov.Type.i4 if signed else ov.Type.u4
    packed = ov.Tensor(kind, ov.Shape(shape))
    packed.data.reshape(-1).view(np.uint8)[:] = joined
    return ops.constant(packed)

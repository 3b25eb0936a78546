"""Weight forms: a named tensor as graph constants, kept packed where the CPU plugin can.

The pattern Constant -> Convert -> [Subtract zero] -> Multiply scale -> Reshape -> MatMul compiles
to one matrix product over packed weights. `stored` keeps the file's own numbers, `int8` requantises
every matrix to 8 bits in groups of 32, `f32` widens.

    node = constant(checkpoint.tensor("lm_head.weight"), "stored")   # [out, in] float32

Knows nothing of architectures.
"""

from __future__ import annotations

import numpy as np
import openvino as ov
import openvino.opset15 as ops

from pilotfish.model.weights import Dense, Grouped, Tensor

FORMS = ("stored", "int8", "f32")
_GROUP = 32


def constant(tensor: Tensor, form: str) -> ov.Output:
    """The matrix as a node [out, in] float32 that stays packed in memory where it can.

    Raises BadModel for a form that is not one of FORMS (checked at the front door).
    """
    if form == "f32" or (form == "stored" and isinstance(tensor, Dense)):
        return ops.constant(tensor.to_float32()).output(0)
    packed = tensor if form == "stored" and isinstance(tensor, Grouped) else int8_groups(tensor.to_float32())
    return _packed(packed)


def int8_groups(matrix: np.ndarray) -> Grouped:
    """Round a matrix [out, in] to int8 in groups of 32 along its input, symmetric."""
    out, width = matrix.shape
    group = _GROUP if width % _GROUP == 0 else width
    grouped = matrix.reshape(out, width // group, group)
    scale = np.abs(grouped).max(axis=-1) / np.float32(127)
    scale[scale == 0] = 1
    codes = np.rint(grouped / scale[..., None]).astype(np.int8)
    return Grouped(codes=codes.reshape(out, width), scale=scale, zero=None, group=group, bits=8)


def alike(tensors: list[Tensor]) -> bool:
    """Whether several matrices can be one packed matrix: dense ones always, packed ones of one kind."""
    first = tensors[0]
    if not isinstance(first, Grouped):
        return not any(isinstance(other, Grouped) for other in tensors)
    return all(
        isinstance(other, Grouped)
        and (other.group, other.bits, other.codes.dtype) == (first.group, first.bits, first.codes.dtype)
        and (other.zero is None) == (first.zero is None)
        for other in tensors
    )


def stack(tensors: list[Tensor]) -> Tensor:
    """Several matrices over one input as one, rows below rows, packed where all are alike."""
    first = tensors[0]
    if len(tensors) == 1:
        return first
    if not isinstance(first, Grouped) or not alike(tensors):
        return Dense(np.concatenate([tensor.to_float32() for tensor in tensors]))
    grouped = [tensor for tensor in tensors if isinstance(tensor, Grouped)]
    zeros = [tensor.zero for tensor in grouped if tensor.zero is not None]
    return Grouped(
        codes=np.concatenate([tensor.codes for tensor in grouped]),
        scale=np.concatenate([tensor.scale for tensor in grouped]),
        zero=np.concatenate(zeros) if zeros else None,
        group=first.group,
        bits=first.bits,
    )


def _packed(tensor: Grouped) -> ov.Output:
    out, width = tensor.codes.shape
    shape = [out, width // tensor.group, tensor.group]
    node = ops.convert(_codes(tensor, shape), "f32")
    if tensor.zero is not None:
        # An f32 zero point is exact for Q4_1; f16 or rounded ones are not.
        node = ops.subtract(node, ops.constant(tensor.zero[..., None].astype(np.float32)))
    node = ops.multiply(node, ops.constant(tensor.scale[..., None].astype(np.float32)))
    return ops.reshape(node, ops.constant(np.array([out, width], np.int64)), False).output(0)


def _codes(tensor: Grouped, shape: list[int]) -> ov.Node:
    if tensor.bits > 4 or tensor.codes.dtype != np.uint8:
        return ops.constant(np.ascontiguousarray(tensor.codes).reshape(shape))
    flat = tensor.codes.reshape(-1)
    nibbles = (flat[0::2] | (flat[1::2] << 4)).astype(np.uint8)  # u4: low nibble first
    # A tensor around numpy's memory would outlive it; this one owns its bytes.
    packed = ov.Tensor(ov.Type.u4, ov.Shape(shape))
    packed.data.reshape(-1)[:] = nibbles
    return ops.constant(packed)

"""Weight forms: what stays packed when it runs, what it computes, how int4 rounds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import openvino as ov
import openvino.opset15 as ops
import pytest
from gguf.constants import GGMLQuantizationType as Kind

from pilotfish.errors import BadRequest
from pilotfish.model.openvino.compiled import core
from pilotfish.model.openvino.forms import FORMS, constant, formed, in_form, int4_groups, stack
from pilotfish.model.weights import Dense, Grouped, open_checkpoint
from pilotfish.model.weights.tensors import Tensor
from pilotfish.model.weights.unpack import PACKED, unpack
from tests.fixtures.gguf_blocks import random_rows
from tests.fixtures.tiny_gguf import write_gguf

CODES = {Kind.Q2_K: "u2", Kind.Q3_K: "i4", Kind.Q4_0: "i4", Kind.Q4_1: "u4", Kind.Q4_K: "u4"}
CODES |= {Kind.Q5_0: "i8", Kind.Q5_1: "u8", Kind.Q5_K: "u8", Kind.Q6_K: "i8", Kind.Q8_0: "i8"}
ROUNDING = 2e-6  # of a sum of a few hundred float32 products, relative to the largest weight times its root


class Compiled:
    """A matrix product, or a gather of rows, over one constant, as the plugin runs it."""

    def __init__(self, weights: ov.Output, *, gathered: bool = False) -> None:
        kind = ov.Type.i32 if gathered else ov.Type.f32
        source = ops.parameter([-1] if gathered else [-1, weights.get_shape()[1]], kind)
        node = (
            ops.gather(weights, source, ops.constant(np.int32(0)))
            if gathered
            else ops.matmul(source, weights, False, True)
        )
        properties = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"}
        self.model = core().compile_model(ov.Model([node], [source], "one"), "CPU", properties)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        result: np.ndarray = self.model(values)[0]
        return result

    @property
    def constants(self) -> dict[str, int]:
        """The types of the constants that the running graph reads, and their largest sizes in values."""
        sizes: dict[str, int] = {}
        for node in self.model.get_runtime_model().get_ops():
            kind = node.get_rt_info()["layerType"]
            if getattr(kind, "value", kind) == "Const" and node.output(0).get_partial_shape().is_static:
                name = node.output(0).get_element_type().to_string()
                sizes[name] = max(sizes.get(name, 0), int(np.prod(node.output(0).get_shape())))
        return sizes


def wide_rows(kind: Kind, seed: int = 0) -> np.ndarray:
    """[56, bytes of a row]"""
    return np.concatenate([random_rows(kind, seed + turn) for turn in range(8)])


def close(found: np.ndarray, inputs: np.ndarray, weights: np.ndarray) -> bool:
    exact = inputs.astype(np.float64) @ weights.T.astype(np.float64)
    scale = np.abs(weights).max() * np.linalg.norm(inputs, axis=1).max()
    return bool(np.abs(found - exact).max() <= ROUNDING * scale)


@pytest.mark.parametrize("kind", PACKED)
def test_a_kind_is_packed_at_run_time_and_exact(kind: Kind) -> None:
    rows = wide_rows(kind)
    exact = gguf.quants.dequantize(rows, kind)
    product = Compiled(constant(unpack(rows, kind)))
    inputs = np.random.default_rng(1).normal(size=(8, exact.shape[1])).astype(np.float32)
    assert close(product(inputs), inputs, exact)
    assert product.constants[CODES[kind]] == exact.size
    assert product.constants["f32"] <= exact.size // 16  # scales and zero points


@pytest.mark.parametrize("kind", PACKED)
def test_an_embedding_is_packed_too(kind: Kind) -> None:
    tensor = unpack(wide_rows(kind), kind)
    assert isinstance(tensor, Grouped)
    if tensor.bits == 2:
        tensor = Grouped(tensor.codes, tensor.scale, tensor.zero, group=tensor.group, bits=4)
    gather = Compiled(constant(tensor), gathered=True)
    ids = np.array([3, 0, 55], np.int32)
    assert np.array_equal(gather(ids), tensor.to_float32()[ids])
    assert gather.constants["u4" if kind == Kind.Q2_K else CODES[kind]] == tensor.codes.size


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_a_rounded_form_is_packed(form: str) -> None:
    matrix = np.random.default_rng(3).normal(size=(48, 96)).astype(np.float32)
    product = Compiled(constant(formed(Dense(matrix), form)))
    inputs = np.random.default_rng(4).normal(size=(5, 96)).astype(np.float32)
    assert close(product(inputs), inputs, formed(Dense(matrix), form).to_float32())
    codes = product.constants
    assert (codes["i8"] if form == "int8" else codes["u4"]) == matrix.size


@pytest.mark.parametrize(
    "mixed", [(Kind.Q4_K, Kind.Q4_K, Kind.Q6_K), (Kind.Q5_0, Kind.Q4_0), (Kind.Q2_K, Kind.Q3_K)]
)
def test_unlike_kinds_are_stacked_packed(mixed: tuple[Kind, ...]) -> None:
    tensors: list[Tensor] = [unpack(random_rows(kind, 5), kind) for kind in mixed]
    width = min(tensor.shape[1] for tensor in tensors)
    stacked = stack(tensors)
    assert isinstance(stacked, Grouped) and stacked.shape == (7 * len(mixed), width)
    expected = np.concatenate([tensor.to_float32() for tensor in tensors])
    assert np.array_equal(stacked.to_float32(), expected)
    inputs = np.random.default_rng(6).normal(size=(4, width)).astype(np.float32)
    assert close(Compiled(constant(stacked))(inputs), inputs, expected)


def test_a_dense_part_widens_the_stack() -> None:
    packed = unpack(random_rows(Kind.Q8_0), Kind.Q8_0)
    stacked = stack([packed, Dense(np.ones((2, packed.shape[1]), np.float16))])
    assert isinstance(stacked, Dense)
    assert np.array_equal(stacked.array[:7], packed.to_float32()) and (stacked.array[7:] == 1).all()


def test_int4_rounds_to_the_nearest_of_sixteen() -> None:
    matrix = np.random.default_rng(2).normal(size=(6, 64)).astype(np.float32)
    matrix[3] = 0
    matrix[4] = np.abs(matrix[4]) + 1  # a group without negative weights
    matrix[5, :32] = -2
    packed = int4_groups(matrix)
    scale = packed.scale.repeat(32, axis=1)
    assert packed.zero is not None and packed.zero.dtype == np.uint8 and packed.zero.max() <= 15
    assert packed.codes.max() == 15 and (packed.bits, packed.group) == (4, 32)
    assert (
        np.abs(packed.to_float32() - matrix) <= scale + 1e-6
    ).all()  # half for the zero point, half for the code
    assert not packed.to_float32()[3].any()
    assert np.allclose(packed.to_float32()[5, :32], -2, atol=1e-6)
    assert int4_groups(matrix[:, :40]).group == 40


def test_int4_errs_less_than_symmetric_codes() -> None:
    matrix = np.random.default_rng(7).normal(size=(500, 320)).astype(np.float32)
    error = np.square(int4_groups(matrix).to_float32() - matrix).sum() / np.square(matrix).sum()
    groups = matrix.reshape(-1, 32)
    largest = np.take_along_axis(groups, np.abs(groups).argmax(-1)[:, None], -1) / -8
    symmetric = np.square(np.rint(groups / largest).clip(-8, 7) * largest - groups).sum()
    assert error < 0.0068 < 0.0072 < symmetric / np.square(matrix).sum()


def test_f16_rounds_and_refuses_what_it_cannot_hold() -> None:
    matrix = np.array([[1, 1 + 2**-12, 65504]], np.float32)
    assert np.array_equal(formed(Dense(matrix), "f16").to_float32(), [[1, 1, 65504]])
    with pytest.raises(BadRequest, match=r"65,504, one is 131008; .*f32"):
        formed(Dense(matrix * 2), "f16")


@pytest.mark.parametrize("form", FORMS)
def test_a_checkpoint_in_a_form(form: str, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", kind=Kind.Q4_1))
    made = in_form(checkpoint, form)
    embedding, inner = "model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"
    expected = {"stored": (4, 4), "int8": (8, 8), "int4": (8, 4)}.get(form)
    found = made.tensor(embedding), made.tensor(inner)
    if expected is None:
        assert all(isinstance(tensor, Dense) for tensor in found)
    else:
        assert tuple(tensor.bits for tensor in found if isinstance(tensor, Grouped)) == expected
    values = checkpoint.tensor(inner).to_float32()
    error = np.abs(found[1].to_float32() - values).max() / np.abs(values).max()
    assert error <= {"int8": 1 / 200, "int4": 1 / 7, "f16": 2**-11}.get(form, 0)
    norm = "model.layers.0.input_layernorm.weight"
    assert np.array_equal(made.tensor(norm).to_float32(), checkpoint.tensor(norm).to_float32())


def test_a_two_bit_embedding_is_held_as_four(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "tiny.gguf"))
    names = "model.embed_tokens.weight", "model.layers.0.mlp.up_proj.weight"
    two_bit = unpack(random_rows(Kind.Q2_K), Kind.Q2_K)
    entries = {name: replace(checkpoint.entries[name], read=lambda: two_bit) for name in names}
    made = in_form(replace(checkpoint, entries={**checkpoint.entries, **entries}), "stored")
    embedding, inner = (made.tensor(name) for name in names)
    assert isinstance(embedding, Grouped) and isinstance(inner, Grouped)
    assert (embedding.bits, inner.bits) == (4, 2)
    assert np.array_equal(embedding.codes, inner.codes)

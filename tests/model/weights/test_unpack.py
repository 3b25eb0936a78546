"""unpack: packed tensors hold exactly what the gguf package dequantises."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind

from pilotfish.errors import BadModel
from pilotfish.model.weights import Checkpoint, Dense, Grouped
from pilotfish.model.weights.gguf_file import GgufFile
from pilotfish.model.weights.unpack import PACKED, unpack
from tests.fixtures.gguf_blocks import SCALES, random_rows

# A zero point -m/d cannot hit every offset m exactly; it comes within one float32 step of the largest.
ONE_ROUNDING = 2.0**-23


@pytest.mark.parametrize("kind", PACKED)
def test_random_blocks_are_equal_to_gguf(kind: Kind) -> None:
    rows = random_rows(kind)
    packed, exact = unpack(rows, kind), gguf.quants.dequantize(rows, kind)
    assert isinstance(packed, Grouped)
    assert packed.shape == exact.shape
    assert packed.scale.shape == (7, exact.shape[1] // packed.group)
    lowest = 0 if packed.zero is not None else -(2 ** (packed.bits - 1))
    assert packed.codes.dtype == (np.int8 if packed.zero is None else np.uint8)
    assert lowest <= packed.codes.min() and packed.codes.max() < lowest + 2**packed.bits
    if packed.zero is None:
        assert np.array_equal(packed.to_float32(), exact)
    else:
        assert np.abs(packed.to_float32() - exact).max() <= ONE_ROUNDING * np.abs(exact).max()


@pytest.mark.parametrize("kind", [Kind.Q5_1, Kind.Q2_K, Kind.Q4_K, Kind.Q5_K])
def test_groups_without_scale_hold_their_offset(kind: Kind) -> None:
    """A group's scale is 0 where the block's is, or, in the K kinds, where its own share of it is."""
    rows = random_rows(kind)
    blocks = rows.reshape(7, 6, -1)
    blocks[0, 0, :16] = 0  # scales and offsets of a whole block: nothing but zeros is left
    blocks[1, :, SCALES[kind][0] : SCALES[kind][0] + 2] = 0
    packed, exact = unpack(rows, kind), gguf.quants.dequantize(rows, kind)
    assert np.abs(exact[1]).max() > 0
    assert np.array_equal(packed.to_float32()[1], exact[1])
    assert np.abs(packed.to_float32() - exact).max() <= ONE_ROUNDING * np.abs(exact).max()


def test_a_q4_1_group_without_scale_holds_its_offset() -> None:
    rows = random_rows(Kind.Q4_1)
    packed, exact = unpack(rows, Kind.Q4_1), gguf.quants.dequantize(rows, Kind.Q4_1)
    assert isinstance(packed, Grouped) and packed.zero is not None
    flat = rows.reshape(7, 6, 20)[:, :, :2].reshape(7, 6, 2).copy().view(np.float16)[:, :, 0] == 0
    assert flat.any()
    assert not packed.codes.reshape(7, 6, 32)[flat].any()
    assert np.isin(packed.zero[flat], (-1, 0, 1)).all()
    groups = packed.to_float32().reshape(7, 6, 32), exact.reshape(7, 6, 32)
    assert np.array_equal(groups[0][flat], groups[1][flat])


def test_other_kinds_are_widened() -> None:
    rows = random_rows(Kind.IQ4_NL)
    widened = unpack(rows, Kind.IQ4_NL)
    assert isinstance(widened, Dense) and widened.array.dtype == np.float32
    assert np.array_equal(widened.to_float32(), gguf.quants.dequantize(rows, Kind.IQ4_NL))
    brain = np.array([[0x3F80, 0xC049]], np.uint16)  # the upper halves of 1 and -3.140625
    assert np.array_equal(unpack(brain.view(np.uint8), Kind.BF16).to_float32(), [[1, -3.140625]])
    half = np.arange(8, dtype=np.float16).reshape(2, 4)
    assert np.array_equal(unpack(half.view(np.uint8), Kind.F16).to_float32(), half.astype(np.float32))


def test_an_infinite_scale_is_refused() -> None:
    rows = random_rows(Kind.Q8_0)
    rows[3, 0:2] = np.array([np.inf], np.float16).view(np.uint8)
    with pytest.raises(BadModel, match="Q8_0 blocks with an infinite"):
        unpack(rows, Kind.Q8_0)


def test_a_kind_without_decoder_is_refused() -> None:
    with pytest.raises(BadModel, match="no decoder for I32"):
        unpack(np.zeros((1, 8), np.uint8), Kind.I32)


def test_the_embedded_model_is_equal_to_gguf(embedded: Checkpoint) -> None:
    file = GgufFile.read(embedded.path)
    for stored, name in (
        ("token_embd.weight", "model.embed_tokens.weight"),
        ("blk.0.attn_v.weight", "model.layers.0.self_attn.v_proj.weight"),
        ("blk.14.ffn_down.weight", "model.layers.14.mlp.down_proj.weight"),
        ("blk.29.attn_output.weight", "model.layers.29.self_attn.o_proj.weight"),
    ):
        exact = gguf.quants.dequantize(np.array(file.raw(stored)[:2000]), file.tensors[stored].kind)
        found = embedded.tensor(name).to_float32()[:2000]
        difference = np.abs(found - exact.reshape(found.shape)).max()
        assert difference <= ONE_ROUNDING * np.abs(exact).max(), name
        assert file.tensors[stored].kind.name == "Q4_1" or difference == 0, name

"""GgufFile: no damage to a header may end in anything but BadModel."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType as Kind

from pilotfish.errors import BadModel
from pilotfish.model.weights import open_checkpoint
from pilotfish.model.weights.gguf_file import GgufFile
from tests.fixtures.tiny_gguf import write_gguf


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", kind=Kind.Q4_1).read_bytes()


def header(*, magic: bytes = b"GGUF", version: int = 3, tensors: int = 0, keys: int = 0) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, keys)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def test_agrees_with_the_gguf_package(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(whole)
    ours, theirs = GgufFile.read(path), gguf.GGUFReader(path)
    assert [*ours.tensors] == [tensor.name for tensor in theirs.tensors]
    for tensor in theirs.tensors:
        assert np.array_equal(ours.raw(tensor.name).ravel(), tensor.data.view(np.uint8).ravel())
    for key, field in theirs.fields.items():
        if not key.startswith("GGUF."):
            assert ours.metadata[key] == field.contents(), key


def test_every_cut_is_noticed(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(whole)
    end = max(info.end for info in GgufFile.read(path).tensors.values())
    for cut in [*range(0, 400), *range(400, 8000, 29), *range(8000, end, 997), end - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises(BadModel, match=r"cut\.gguf"):
            open_checkpoint(path)


def test_random_damage_is_noticed_or_harmless(whole: bytes, tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    path = tmp_path / "damaged.gguf"
    refused = 0
    for _ in range(400):
        damaged = np.frombuffer(whole, np.uint8).copy()
        places = random.integers(0, 6000, random.integers(1, 5))
        damaged[places] = random.integers(0, 256, places.size)
        path.unlink(missing_ok=True)
        path.write_bytes(damaged.tobytes())
        try:
            checkpoint = open_checkpoint(path)
            for name in checkpoint.names():
                checkpoint.tensor(name)
        except BadModel:
            refused += 1
    assert refused > 20


def test_noise_is_refused(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    path = tmp_path / "noise.gguf"
    for _ in range(200):
        path.write_bytes(header(tensors=1, keys=1) + random.bytes(200))
        with pytest.raises(BadModel):
            open_checkpoint(path)


@pytest.mark.parametrize(
    ("stored", "named"),
    [
        (b"", "is empty"),
        (header(magic=b"PK\x03\x04"), "no GGUF file"),
        (header(version=1), "format version 1"),
        (header(version=3 << 24), "format version"),
        (header(keys=2**63), "announces 9223372036854775808 metadata entries"),
        (header(tensors=2**40), "announces 1099511627776 tensors"),
        (header(keys=1) + struct.pack("<Q", 2**62) + b"abcdefgh", "cut off"),
        (header(keys=1) + text("key") + struct.pack("<I", 99), "unknown type 99"),
        (header(keys=1) + text("key") + struct.pack("<IIQ", 9, 8, 2**60), "announces .* values"),
        (header(keys=1) + text("key") + struct.pack("<IIQ", 9, 4, 2**60), "announces .* values"),
        (header(keys=1) + text("k") + struct.pack("<IIQIQ", 9, 9, 1, 9, 1), "unknown type 9"),
        (header(keys=2) + (text("k") + struct.pack("<IB", 0, 1)) * 2, "there twice"),
        (header(keys=1) + struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<IB", 0, 1), "not UTF-8"),
        (header(tensors=1) + text("t") + struct.pack("<I", 9) + bytes(40), "9 dimensions"),
        (header(tensors=1) + text("t") + struct.pack("<IQIQ", 1, 32, 77, 0), "unknown type 77"),
        (header(tensors=1) + text("t") + struct.pack("<IQIQ", 1, 31, 2, 0), "impossible for Q4_0"),
        (header(tensors=1) + text("t") + struct.pack("<IQQIQ", 2, 2**40, 2**40, 0, 0), "cut off"),
        (header(tensors=1) + text("t") + struct.pack("<IQIQ", 1, 4, 0, 2**63), "cut off"),
    ],
)
def test_each_kind_of_damage_is_named(stored: bytes, named: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(stored)
    with pytest.raises(BadModel, match=named) as caught:
        GgufFile.read(path)
    assert "bad.gguf" in str(caught.value)

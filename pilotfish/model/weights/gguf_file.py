"""GgufFile: the header of a GGUF file (metadata and tensor table), checked before use.

    file = GgufFile.read(Path("model.gguf"))
    file.metadata["general.architecture"], file.tensors["token_embd.weight"].shape
    file.raw("token_embd.weight")       # uint8, a view of the mapped file

The `gguf` package reads the same header in 4 s for a 49k vocabulary, this in 0.1, and a damaged
file ends in BadModel, not in an index error. Knows nothing of quantisation or architectures.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from pilotfish.errors import BadModel
from pilotfish.model.weights.mapped import map_file
from pilotfish.model.weights.tensors import Array

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MOST_DIMENSIONS = 4
STRING, ARRAY = 8, 9
SCALARS: Mapping[int, str] = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}


@dataclass(frozen=True)
class TensorInfo:
    """Where a tensor lies in its file. shape is [out, in], the reverse of the file's order."""

    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    begin: int
    end: int


@dataclass(frozen=True, eq=False)
class GgufFile:
    """A checked header over the mapped bytes of one file."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, TensorInfo]
    bytes: Array

    @classmethod
    def read(cls, path: Path) -> GgufFile:
        """Reads and checks the header. Raises BadModel for a file that is not a whole GGUF."""
        mapped = map_file(path)
        cursor = _Cursor(path=path, data=memoryview(mapped.data), at=0)
        if (magic := cursor.take(4)) != MAGIC:
            cursor.refuse(f"it begins with {magic!r}, not {MAGIC!r}: this is no GGUF file")
        version = cursor.integer("I")
        if version not in VERSIONS:
            cursor.refuse(f"it has format version {version}, known are {VERSIONS} (little-endian)")
        tensor_count, key_count = cursor.integer("Q"), cursor.integer("Q")
        # The smallest entry: an empty name, a type and one byte; a name, a size, a type, a place.
        cursor.check_count(key_count, 13, "metadata entries")
        cursor.check_count(tensor_count, 24, "tensors")
        metadata = _metadata(cursor, key_count)
        tensors = _tensors(cursor, tensor_count, metadata.get("general.alignment", 32))
        return cls(path=path, metadata=metadata, tensors=tensors, bytes=mapped)

    def raw(self, name: str) -> Array:
        """The stored bytes of a tensor, one row per output row, not copied."""
        info = self.tensors[name]
        stored = self.bytes[info.begin : info.end]
        return stored.reshape(*info.shape[:-1], stored.size // max(1, math.prod(info.shape[:-1])))


@dataclass
class _Cursor:
    """A reading position. Every step is checked against the end of the file."""

    path: Path
    data: memoryview
    at: int

    def refuse(self, found: str) -> NoReturn:
        raise BadModel(f"{self.path}: {found} (byte {self.at}). Fetch the model again.")

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def check_count(self, count: int, smallest: int, what: str) -> None:
        if count * smallest > self.left:
            self.refuse(f"it announces {count} {what}, but only {self.left} bytes follow")

    def take(self, size: int) -> bytes:
        if size > self.left:
            self.refuse(f"the file is cut off: {size} bytes expected, {self.left} left")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def scalar(self, code: str) -> int | float:
        found: int | float = struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]
        return found

    def integer(self, code: str) -> int:
        return int(self.scalar(code))

    def text(self) -> str:
        stored = self.take(self.integer("Q"))
        try:
            return stored.decode("utf-8")
        except UnicodeDecodeError:
            self.refuse("a text in the header is not UTF-8")

    def texts(self, count: int) -> list[str]:
        """As `text`, for the hundred thousand of a vocabulary: in a loop without calls."""
        found, at, data, size_of = [], self.at, self.data, struct.Struct("<Q").unpack_from
        end = len(data)
        for _ in range(count):
            begin = at + 8
            at = begin + size_of(data, at)[0] if begin <= end else end + 1
            if at > end:
                self.refuse("the file is cut off within a list of texts")
            try:
                found.append(str(data[begin:at], "utf-8"))
            except UnicodeDecodeError:
                self.at = begin
                self.refuse("a text in the header is not UTF-8")
        self.at = at
        return found

    def value(self, kind: int, *, nested: bool = False) -> object:
        if kind == STRING:
            return self.text()
        if kind in SCALARS:
            return self.scalar(SCALARS[kind])
        if kind != ARRAY or nested:  # no writer nests arrays
            self.refuse(f"a metadata value has the unknown type {kind}")
        kind, count = self.integer("I"), self.integer("Q")
        if kind in SCALARS:
            code = SCALARS[kind]
            self.check_count(count, struct.calcsize("<" + code), "values")
            return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize("<" + code))))
        self.check_count(count, 8, "values")
        return self.texts(count) if kind == STRING else [self.value(kind, nested=True) for _ in range(count)]


def _metadata(cursor: _Cursor, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(count):
        key = cursor.text()
        if key in metadata:
            cursor.refuse(f"the metadata entry {key!r} is there twice")
        metadata[key] = cursor.value(cursor.integer("I"))
    return metadata


def _tensors(cursor: _Cursor, count: int, alignment: object) -> dict[str, TensorInfo]:
    if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
        cursor.refuse(f"general.alignment is {alignment!r}, expected a power of two")
    entries = []
    for _ in range(count):
        name = cursor.text()
        dimensions = cursor.integer("I")
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            cursor.refuse(f"the tensor {name!r} has {dimensions} dimensions")
        sizes = [cursor.integer("Q") for _ in range(dimensions)]
        entries.append((name, tuple(reversed(sizes)), cursor.integer("I"), cursor.integer("Q")))
    start = cursor.at + -cursor.at % alignment
    tensors: dict[str, TensorInfo] = {}
    for name, shape, number, offset in entries:
        if name in tensors:
            cursor.refuse(f"the tensor {name!r} is there twice")
        tensors[name] = _tensor(cursor, name, (shape, number, start + offset))
    return tensors


def _tensor(cursor: _Cursor, name: str, stored: tuple[tuple[int, ...], int, int]) -> TensorInfo:
    shape, number, begin = stored
    try:
        kind = GGMLQuantizationType(number)
        block, size = GGML_QUANT_SIZES[kind]
    except (ValueError, KeyError):
        raise BadModel(
            f"{cursor.path}: the tensor {name!r} has the unknown type {number}. Update the gguf package,"
            " or choose a file in another quantisation."
        ) from None
    if min(shape) < 1 or shape[-1] % block:
        cursor.refuse(f"the tensor {name!r} has the shape {shape}, impossible for {kind.name}")
    end = begin + math.prod(shape) // block * size
    if end > len(cursor.data):
        cursor.refuse(f"the file is cut off: {name!r} ends at byte {end}, the file at {len(cursor.data)}")
    return TensorInfo(shape=shape, kind=kind, begin=begin, end=end)

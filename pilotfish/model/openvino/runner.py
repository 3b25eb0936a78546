"""The paged runner on OpenVINO's CPU plugin.

    runner = OpenVINORunner(decoder(checkpoint, "int8"), config, RuntimeConfig())
    output = runner.forward([Slice(tokens=[1, 2], start=0, blocks=[0], wanted=range(1, 2))])

Knows nothing of sequences, drafts or which form of a pass is exact.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import openvino as ov

from pilotfish.model.config import ModelConfig
from pilotfish.model.openvino.graph import paged
from pilotfish.model.openvino.memory import giving_back
from pilotfish.model.runner import Output, Slice
from pilotfish.model.weights.tensors import Array

_PACKING = (2, 8)  # rows; AVX2 machines change the order between 5 and 8
BLOCK_SIZE = 32  # what the CPU plugin's paged attention works with


@dataclass(frozen=True, kw_only=True)
class RuntimeConfig:
    """What shapes the arithmetic (all of it is part of the exactness contract) and the memory.

    activations    "int8": the runtime may quantise activations in groups of 32; "f32": it may not
    threads        how many CPU threads a pass uses
    cache_tokens   slots of the KV cache, rounded up to whole blocks; memory is touched on first use
    taps           layers whose output every pass returns as features
    profiled       the runtime counts its time by kind of node, which slows it a little
    """

    activations: str = "f32"
    threads: int = 0
    cache_tokens: int = 32768
    taps: tuple[int, ...] = ()
    profiled: bool = False

    @property
    def used_threads(self) -> int:
        """The thread count, with 0 meaning the CPUs this process may use."""
        return self.threads or len(os.sched_getaffinity(0))


class OpenVINORunner:
    """One compiled model, its KV cache and its one inference request. Not thread safe.

    mapped        the file that the model's constants lie in; it is kept, and its pages are given back
    weight_bytes  of the model's constants; those that are alike count once in a file
    """

    def __init__(
        self, model: ov.Model, config: ModelConfig, runtime: RuntimeConfig, *, mapped: Array | None = None
    ) -> None:
        self.vocab = config.vocab
        self.context = config.context
        self.block_size = BLOCK_SIZE
        self.blocks = -(-runtime.cache_tokens // BLOCK_SIZE)
        self._taps = runtime.taps
        self._mapped = mapped
        self.weight_bytes = _constant_bytes(model) if mapped is None else mapped.nbytes
        with giving_back(mapped):
            compiled = ov.Core().compile_model(paged(model, runtime.taps), "CPU", _properties(runtime))
            self._request = compiled.create_infer_request()
            self._ports = {port.get_any_name(): port for port in compiled.inputs}
            self._bound: dict[str, np.ndarray] = {}
            self._caches = [self._allocate(port) for name, port in self._ports.items() if "_cache." in name]
            if mapped is not None:
                self._pack()

    def _pack(self) -> None:
        """The first pass copies packed weights into the order its kernels read, the first wide one into
        another: as well now, while the pages they come from are given back."""
        for rows in _PACKING:
            self.forward([Slice([0] * min(rows, self.context), 0, [0], range(min(rows, self.context)))])

    def _allocate(self, port: ov.ConstOutput) -> np.ndarray:
        """Bind one layer's key or value cache: [block, head, slot, dim].

        Zeroed, because NaN in a slot never written would poison attention; np.zeros leaves
        the pages untouched until a block is used.
        """
        shape = [size.get_length() if size.is_static else self.blocks for size in port.partial_shape]
        cache = np.zeros(shape, np.float32)
        self._request.set_tensor(port, ov.Tensor(cache, shared_memory=True))
        return cache

    def forward(self, batch: Sequence[Slice]) -> Output:
        """One pass over the slices; see `Runner.forward`."""
        lengths = [len(part.tokens) for part in batch]
        begins = np.cumsum([0, *lengths])
        rows = [begin + row for begin, part in zip(begins, batch, strict=False) for row in part.wanted]
        self._feed(batch, begins, rows)
        self._request.infer()
        return self._collect(batch, begins, len(rows))

    def _feed(self, batch: Sequence[Slice], begins: np.ndarray, rows: list[int]) -> None:
        tables = [part.blocks[: -(-(part.start + len(part.tokens)) // BLOCK_SIZE)] for part in batch]
        ends = [part.start + len(part.tokens) for part in batch]
        # At least two rows reach the head: one alone takes another kernel, with other bits. And a round
        # number of them: a few rows more cost less than preparing the head for another number.
        most = max(2, min(int(begins[-1]), -(-len(rows) // 4) * 4))
        gathered = [*rows, *[0] * (most - len(rows))]
        feeds = {
            "input_ids": np.concatenate([np.asarray(part.tokens, np.int64) for part in batch]),
            "position_ids": np.concatenate(
                [np.arange(part.start, end, dtype=np.int64) for part, end in zip(batch, ends, strict=True)]
            ),
            "past_lens": np.array([part.start for part in batch], np.int32),
            "subsequence_begins": begins.astype(np.int32),
            "block_indices": np.concatenate([np.asarray(table, np.int32) for table in tables]),
            "block_indices_begins": np.cumsum([0, *map(len, tables)]).astype(np.int32),
            "max_context_len": np.array(max(ends), np.int32),
            "rows": np.array(gathered, np.int64),
        }
        for name, values in feeds.items():
            self._bind(name, values)

    def _bind(self, name: str, values: np.ndarray) -> None:
        """Set an input. Binding a tensor takes 16 us, writing into one that is bound half a
        microsecond, and most passes have the shapes of the pass before."""
        bound = self._bound.get(name)
        if bound is not None and bound.shape == values.shape:
            bound[...] = values
            return
        self._bound[name] = values
        self._request.set_tensor(self._ports[name], ov.Tensor(values, shared_memory=True))

    def _collect(self, batch: Sequence[Slice], begins: np.ndarray, rows: int) -> Output:
        table = self._request.get_output_tensor(0).data.reshape(-1, self.vocab)[:rows]
        logits, first = [], 0
        for part in batch:
            logits.append(table[first : first + len(part.wanted)])
            first += len(part.wanted)
        features: dict[int, list[np.ndarray]] = {}
        for index, layer in enumerate(self._taps):
            stream = self._request.get_output_tensor(index + 1).data.reshape(begins[-1], -1)
            features[layer] = np.split(stream, begins[1:-1])
        return Output(logits, features)

    def node_seconds(self) -> dict[str, float]:
        """Seconds of a pass by kind of node, the average of all so far, for a runner made with `profiled`."""
        seconds: dict[str, float] = {}
        for node in self._request.profiling_info:
            kind = str(node.node_type)
            seconds[kind] = seconds.get(kind, 0.0) + node.real_time.total_seconds()
        return seconds

    def copy_block(self, source: int, destination: int) -> None:
        """Copy one block's keys and values in all layers."""
        for cache in self._caches:
            cache[destination] = cache[source]


def _constant_bytes(model: ov.Model) -> int:
    return sum(int(node.get_byte_size()) for node in model.get_ops() if node.get_type_name() == "Constant")


def _properties(runtime: RuntimeConfig) -> dict[str, str]:
    return {
        "INFERENCE_PRECISION_HINT": "f32",
        "KV_CACHE_PRECISION": "f32",
        # Set explicitly: the default quantises activations even under the f32 hint.
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": "32" if runtime.activations == "int8" else "0",
        "INFERENCE_NUM_THREADS": str(runtime.used_threads),
        "NUM_STREAMS": "1",
        "PERFORMANCE_HINT": "LATENCY",
        "PERF_COUNT": "YES" if runtime.profiled else "NO",
    }

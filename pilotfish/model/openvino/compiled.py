"""Compiled: one compiled paged model with its one inference request and its bound inputs.

    graph = Compiled(stored, config, runtime)        # passes of any shape
    fixed = Compiled(stored, config, runtime, rows=2, caches=graph.caches)
    graph.infer({"input_ids": ids, ...})
    graph.output(0)

A graph of any shape prepares every node anew when a pass has another shape than the one before, which
costs more than a small model's whole attention; a graph for passes of one sequence and a fixed number of
rows never does. It has its own copy of the weights. Knows nothing of sequences or slices.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import openvino as ov

from pilotfish.model.config import ModelConfig
from pilotfish.model.openvino.graph import paged
from pilotfish.model.openvino.memory import giving_back
from pilotfish.model.weights.tensors import Array

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

    @property
    def blocks(self) -> int:
        """Blocks of the KV cache."""
        return -(-self.cache_tokens // BLOCK_SIZE)


@cache
def core() -> ov.Core:
    """The runtime, one for the process and for good.

    The plugin of each Core puts a stack for signal handlers under the thread that makes it, and unmaps it
    when it goes. Where several come and go, the one that is left may be unmapped: the next Ctrl-C would end
    the process with a segmentation fault.
    """
    return ov.Core()


@dataclass(frozen=True, eq=False)
class StoredDecoder:
    """A stateful decoder, and the mapped file that its constants lie in: to be kept as long as they are.

    mapped  None where the model owns its constants
    """

    model: ov.Model
    mapped: Array | None = None


class Compiled:
    """Set inputs and run with `infer`; read `output`. Not thread safe.

    caches  the keys and values of all layers, by input name; graphs of one runner share them
    rows    the one row count it is made for, or None
    """

    def __init__(
        self,
        stored: StoredDecoder,
        config: ModelConfig,
        runtime: RuntimeConfig,
        *,
        rows: int | None = None,
        caches: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.rows = rows
        self._mapped = stored.mapped
        most_blocks = min(runtime.blocks, -(-config.context // BLOCK_SIZE))
        model = paged(stored.model, config, runtime.taps)
        if rows is not None:
            model.reshape(_fixed_shapes(model, rows, runtime.blocks, most_blocks))
        with giving_back(stored.mapped):
            compiled = core().compile_model(model, "CPU", _properties(runtime))
        self._request = compiled.create_infer_request()
        self._ports = {port.get_any_name(): port for port in compiled.inputs}
        self._bound: dict[str, np.ndarray] = {}
        cached = [name for name in self._ports if "_cache." in name]
        self.caches = caches or {name: _zeros(self._ports[name], runtime.blocks) for name in cached}
        for name in cached:
            self._request.set_tensor(self._ports[name], ov.Tensor(self.caches[name], shared_memory=True))
        if rows is not None:
            for name in filter(_is_table, self._ports):
                self._bind(name, np.zeros(most_blocks, np.int32))

    def infer(self, feeds: Mapping[str, np.ndarray]) -> None:
        """Set the inputs and run. A fixed graph takes block indices of any number."""
        for name, values in feeds.items():
            if self.rows is not None and _is_table(name):
                self._bound[name][: len(values)] = values
            else:
                self._bind(name, values)
        self._request.infer()

    def output(self, index: int) -> np.ndarray:
        """A result of the last pass: a view, valid until the next."""
        values: np.ndarray = self._request.get_output_tensor(index).data
        return values

    def _bind(self, name: str, values: np.ndarray) -> None:
        """Set an input. Binding a tensor takes 16 us, writing into one that is bound half a
        microsecond, and most passes have the shapes of the pass before."""
        bound = self._bound.get(name)
        if bound is not None and bound.shape == values.shape:
            bound[...] = values
            return
        self._bound[name] = values
        self._request.set_tensor(self._ports[name], ov.Tensor(values, shared_memory=True))

    def node_seconds(self) -> dict[str, float]:
        """Seconds of a pass by kind of node, the average of all so far, where `profiled` was asked for."""
        seconds: dict[str, float] = {}
        for node in self._request.profiling_info:
            kind = str(node.node_type)
            seconds[kind] = seconds.get(kind, 0.0) + node.real_time.total_seconds()
        return seconds


def _is_table(name: str) -> bool:
    """Whether an input holds the blocks of all sequences, one after the other."""
    return name.endswith("block_indices")


def _fixed_shapes(model: ov.Model, rows: int, blocks: int, most_blocks: int) -> dict[str, ov.PartialShape]:
    """The shapes of all inputs for one sequence of `rows` tokens."""
    shapes: dict[str, list[int]] = {
        "input_ids": [rows],
        "position_ids": [rows],
        "rows": [rows],
        "past_lens": [1],
        "subsequence_begins": [2],
        "block_indices_begins": [2],
        "block_indices": [most_blocks],
        "max_context_len": [],
    }
    found = {}
    for port in model.inputs:
        name = port.get_any_name()
        shape = _cache_shape(port, blocks) if "_cache." in name else shapes[name.rpartition(".")[2]]
        found[name] = ov.PartialShape(shape)
    return found


def _cache_shape(port: ov.Output, blocks: int) -> list[int]:
    """[block, head, slot, dim] of one layer's keys or values."""
    return [size.get_length() if size.is_static else blocks for size in port.partial_shape]


def _zeros(port: ov.Output, blocks: int) -> np.ndarray:
    """Zeroed, because NaN in a slot never written would poison attention; np.zeros leaves the pages
    untouched until a block is used."""
    return np.zeros(_cache_shape(port, blocks), np.float32)


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

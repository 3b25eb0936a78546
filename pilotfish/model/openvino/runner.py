"""The paged runner on OpenVINO's CPU plugin.

    runner = OpenVINORunner(stored_decoder(checkpoint, "int8"), config, RuntimeConfig())
    output = runner.forward([Slice(tokens=[1, 2], start=0, blocks=[0], wanted=range(1, 2))])
    runner.specialise(lambda: stored_decoder(checkpoint, "int8"), rows=[2, 4])

Knows nothing of sequences, drafts or which form of a pass is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openvino as ov

from pilotfish.model.config import ModelConfig
from pilotfish.model.openvino.compiled import BLOCK_SIZE, Compiled, RuntimeConfig, StoredDecoder
from pilotfish.model.openvino.graph import windowed
from pilotfish.model.openvino.memory import giving_back
from pilotfish.model.runner import Output, Slice

_PACKING = (2, 8)  # rows; AVX2 machines change the order between 5 and 8
__all__ = ["BLOCK_SIZE", "OpenVINORunner", "RuntimeConfig", "StoredDecoder"]


class OpenVINORunner:
    """A graph for passes of any shape, and perhaps some for fixed ones, over one KV cache.

    weight_bytes  of the model's constants; those that are alike count once in a file
    """

    def __init__(self, stored: StoredDecoder | ov.Model, config: ModelConfig, runtime: RuntimeConfig) -> None:
        if isinstance(stored, ov.Model):
            stored = StoredDecoder(stored)
        self.vocab = config.vocab
        self.context = config.context
        self.block_size = BLOCK_SIZE
        self.blocks = runtime.blocks
        self._config, self._runtime = config, runtime
        self._windows = sorted({window for window in config.windows if window is not None})
        self.weight_bytes = _constant_bytes(stored.model) if stored.mapped is None else stored.mapped.nbytes
        self._any = Compiled(stored, config, runtime)
        self._fixed: dict[int, Compiled] = {}
        with giving_back(stored.mapped):
            self._pack(_PACKING)

    def _pack(self, widths: Sequence[int]) -> None:
        """The first pass copies packed weights into the order its kernels read, the first wide one into
        another: as well now, while the pages they come from are given back."""
        for rows in widths:
            self.forward([Slice([0] * min(rows, self.context), 0, [0], range(min(rows, self.context)))])

    @property
    def fixed_rows(self) -> tuple[int, ...]:
        """Row counts of one sequence whose passes have a graph of their own: no pass before one of them
        makes it slower."""
        return tuple(sorted(self._fixed))

    def specialise(self, make: Callable[[], StoredDecoder], rows: Sequence[int]) -> None:
        """Give passes of one sequence and these row counts graphs of their own, too (none: take all away).

        Each takes a second or two to compile and holds another copy of the weights.
        """
        if not rows:
            self._fixed = {}
        missing = sorted({*rows} - self._fixed.keys())
        with ThreadPoolExecutor(2) as pool:  # compiling is mostly the work of one thread
            made = list(pool.map(lambda count: self._compile(make(), count), missing))
        self._fixed |= dict(zip(missing, made, strict=True))
        self._pack(missing)

    def _compile(self, stored: StoredDecoder, count: int) -> Compiled:
        return Compiled(stored, self._config, self._runtime, rows=count, caches=self._any.caches)

    def forward(self, batch: Sequence[Slice]) -> Output:
        """One pass over the slices; see `Runner.forward`."""
        lengths = [len(part.tokens) for part in batch]
        begins = np.cumsum([0, *lengths])
        rows = [begin + row for begin, part in zip(begins, batch, strict=False) for row in part.wanted]
        graph = self._fixed.get(lengths[0], self._any) if len(batch) == 1 and rows else self._any
        feeds = _feeds(batch, begins, rows, graph.rows)
        for window in self._windows:
            feeds |= {windowed(window, name): part for name, part in block_tables(batch, window).items()}
        graph.infer(feeds)
        return self._collect(graph, batch, begins, len(rows))

    def _collect(self, graph: Compiled, batch: Sequence[Slice], begins: np.ndarray, rows: int) -> Output:
        table = graph.output(0).reshape(-1, self.vocab)[:rows]
        logits, first = [], 0
        for part in batch:
            logits.append(table[first : first + len(part.wanted)])
            first += len(part.wanted)
        features: dict[int, list[np.ndarray]] = {}
        for index, layer in enumerate(self._runtime.taps):
            stream = graph.output(index + 1).reshape(begins[-1], -1)
            features[layer] = np.split(stream, begins[1:-1])
        return Output(logits, features)

    def node_seconds(self) -> dict[str, float]:
        """Seconds of a pass by kind of node, the average of all so far, for a runner made with `profiled`."""
        return self._any.node_seconds()

    def copy_block(self, source: int, destination: int) -> None:
        """Copy one block's keys and values in all layers."""
        for cache in self._any.caches.values():
            cache[destination] = cache[source]


def _constant_bytes(model: ov.Model) -> int:
    return sum(int(node.get_byte_size()) for node in model.get_ops() if node.get_type_name() == "Constant")


def _feeds(
    batch: Sequence[Slice], begins: np.ndarray, rows: list[int], fixed: int | None
) -> dict[str, np.ndarray]:
    # At least two rows reach the head: one alone takes another kernel, with other bits. And a round
    # number of them: a few rows more cost less than preparing the head for another number.
    most = fixed or max(2, min(int(begins[-1]), -(-len(rows) // 4) * 4))
    gathered = [*rows, *[0] * (most - len(rows))]
    return {
        "input_ids": np.concatenate([np.asarray(part.tokens, np.int64) for part in batch]),
        "position_ids": np.concatenate(
            [np.arange(part.start, part.start + len(part.tokens), dtype=np.int64) for part in batch]
        ),
        "subsequence_begins": begins.astype(np.int32),
        "rows": np.array(gathered, np.int64),
    } | block_tables(batch)


def block_tables(batch: Sequence[Slice], window: int | None = None) -> dict[str, np.ndarray]:
    """Where the keys and values of the sequences lie: from the first block that a token of the slice sees.

    blocks  | unseen | unseen | seen ...
                                  start - window + 1 .... start ....
    """
    tables, lengths, ends = [], [], []
    for part in batch:
        unseen = 0 if window is None else max(0, part.start - window + 1) // BLOCK_SIZE
        end = part.start + len(part.tokens)
        tables.append(part.blocks[unseen : -(-end // BLOCK_SIZE)])
        lengths.append(part.start - unseen * BLOCK_SIZE)
        ends.append(end - unseen * BLOCK_SIZE)
    return {
        "past_lens": np.array(lengths, np.int32),
        "block_indices": np.concatenate([np.asarray(table, np.int32) for table in tables]),
        "block_indices_begins": np.cumsum([0, *map(len, tables)]).astype(np.int32),
        "max_context_len": np.array(max(ends), np.int32),
    }

"""What a pass costs: by rows of one sequence, by sequences, by context; before and after `specialise`.

    for step in step_grid(llm.target): print(step.rows, step.seconds, step.general_seconds)

A second copy of the model without graphs of its own for common passes is measured beside the target,
interleaved. Knows nothing of prompts, proposers or text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from pilotfish.bench.report import grid
from pilotfish.model.load import Target, runner_in_form
from pilotfish.model.openvino.held import Held
from pilotfish.model.runner import Runner, Slice

ROWS = (1, 2, 4, 8, 16, 32)
SEQUENCES = (1, 4, 16)
CONTEXTS = (256, 1024, 4096)
DRAFTED = 8  # rows that are timed at every context, beside the plain step's
_REPEATS = 9
Show = Callable[[float, str], None]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A pass: so many rows of each of so many sequences, each so many tokens long before it."""

    rows: int
    sequences: int
    context: int

    def blocks(self, block_size: int) -> int:
        """Of the cache, for each sequence."""
        return -(-(self.context + self.rows) // block_size)

    def batch(self, block_size: int) -> list[Slice]:
        """The slices, every sequence in blocks of its own."""
        blocks = self.blocks(block_size)
        return [
            Slice([0] * self.rows, self.context, range(first, first + blocks), range(self.rows))
            for first in range(0, blocks * self.sequences, blocks)
        ]


@dataclass(frozen=True, kw_only=True)
class Step:
    """Median seconds of a pass after one of the same shape.

    general_seconds  the same by the graph for passes of any shape
    switched         by that graph after a pass of another shape
    bytes            of weights and cache that the pass reads, at least
    """

    shape: Shape
    seconds: float
    general_seconds: float
    switched: float
    bytes: int


def shapes(target: Target) -> list[Shape]:
    """Those that are measured: what the form, the context and the cache allow."""
    runner, least, most = target.runner, target.form.min_tokens, target.form.max_rows
    short = min(CONTEXTS[0], runner.context // 2)
    found = [Shape(rows=rows, sequences=1, context=short) for rows in ROWS if least <= rows]
    found += [Shape(rows=least, sequences=count, context=short) for count in SEQUENCES[1:]]
    found += [
        Shape(rows=rows, sequences=1, context=length) for length in CONTEXTS[1:] for rows in (least, DRAFTED)
    ]
    return [
        shape
        for shape in found
        if shape.rows * shape.sequences <= most
        and shape.context + shape.rows <= runner.context
        and shape.blocks(runner.block_size) * shape.sequences <= runner.blocks
    ]


def step_grid(target: Target, show: Show = lambda share, note: None) -> list[Step]:
    """Measure. The target must not hold anything: its first blocks are written over."""
    wanted, options = shapes(target), target.options
    size = target.runner.block_size
    slots = max(shape.sequences * (shape.context + shape.rows + size) for shape in wanted)
    general = runner_in_form(
        target,
        weights=options.used_weights,
        activations=options.used_activations,
        cache_tokens=slots,
    )
    for runner in (target.runner, general):
        _fill(runner, -(-slots // size))
    held = Held.of(target.checkpoint, options.used_weights)
    token = target.checkpoint.config.kv_bytes_per_token(4)
    times: dict[Shape, tuple[list[float], ...]] = {shape: ([], [], []) for shape in wanted}
    for turn in range(_REPEATS):
        for shape in wanted:
            show(turn / _REPEATS, f"{shape.rows} rows, {shape.sequences} sequences, context {shape.context}")
            batch = shape.batch(size)
            own, plain, switched = times[shape]
            own.append(_second(target.runner, batch))
            switched.append(_timed(general, batch))  # the pass before had the shape before this one
            plain.append(_timed(general, batch))
    return [
        Step(
            shape=shape,
            seconds=median(own),
            general_seconds=median(plain),
            switched=median(switched),
            bytes=held.read + token * shape.sequences * shape.context,
        )
        for shape, (own, plain, switched) in times.items()
    ]


def _fill(runner: Runner, blocks: int) -> None:
    """Write every block that will be read: of a block never written the system shows the same empty page
    again and again, which costs next to nothing to read."""
    runner.forward([Slice([1] * runner.block_size, 0, [0], range(0))])
    for block in range(1, min(blocks, runner.blocks)):
        runner.copy_block(0, block)


def _second(runner: Runner, batch: Sequence[Slice]) -> float:
    runner.forward(batch)
    return _timed(runner, batch)


def _timed(runner: Runner, batch: Sequence[Slice]) -> float:
    began = time.perf_counter()
    runner.forward(batch)
    return time.perf_counter() - began


def steps_table(steps: Sequence[Step], *, bandwidth: float) -> str:
    """For people. `bandwidth`: bytes a second that this machine's memory gives."""
    head = (
        "rows",
        "sequences",
        "context",
        "ms",
        "general graph",
        "after a switch",
        "GB read",
        "of bandwidth",
    )
    rows = [
        (
            str(step.shape.rows),
            str(step.shape.sequences),
            str(step.shape.context),
            f"{1e3 * step.seconds:.1f}",
            f"{1e3 * step.general_seconds:.1f}",
            f"{1e3 * step.switched:.1f}",
            f"{step.bytes / 1e9:.3f}",
            f"{100 * step.bytes / step.seconds / bandwidth:.0f}%",
        )
        for step in steps
    ]
    return "\n".join([*grid([head, *rows]), f"bandwidth: {bandwidth / 1e9:.1f} GB/s (reading and writing)"])

"""Step times: what a pass of so many rows costs on this machine, measured at first start.

    steps = measure(runner, form)
    steps.seconds(8)        # interpolated between the measured row counts
    steps.switch            # what a pass costs more when the one before had another row count

On CPUs the curve is a staircase (a matrix kernel works on blocks of rows), so it is a table, not a
slope; and a runtime with dynamic shapes prepares its graph anew when the row count changes. Knows
nothing of acceptance or proposers.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from pilotfish.model.runner import Form, Runner, Slice

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 32)
COMMON = (1, 2, 3, 4, 5, 8)  # the first plateaus of the staircase
_CONTEXT = 256
_REPEATS = 4


@dataclass(frozen=True)
class StepTimes:
    """Seconds of one pass by its rows, of one sequence at a middling context, after a pass of as many
    rows; and the seconds that a pass after one of other rows takes more.

    ready  row counts of one sequence that have a graph of their own, for which there is no switch
    """

    table: Mapping[int, float]
    switch: float = 0.0
    ready: tuple[int, ...] = ()

    def best_of(self, other: StepTimes) -> StepTimes:
        """The lower of two measurements for each row count of this one. (A switch is a difference of
        two times: no noise only adds to it, so the first, thorough measurement stands.)"""
        table = {rows: min(seconds, other.table.get(rows, seconds)) for rows, seconds in self.table.items()}
        return StepTimes(table, self.switch, self.ready)

    def __post_init__(self) -> None:
        rows = sorted(self.table)
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_seconds", [self.table[count] for count in rows])

    def seconds(self, rows: int) -> float:
        """The cost of a pass; linear between measured counts, proportional beyond the last."""
        counts: list[int] = self._rows  # type: ignore[attr-defined]
        seconds: list[float] = self._seconds  # type: ignore[attr-defined]
        place = bisect_left(counts, rows)
        if place == len(counts):
            return seconds[-1] * rows / counts[-1]
        if place == 0 or counts[place] == rows:
            return seconds[place]
        share = (rows - counts[place - 1]) / (counts[place] - counts[place - 1])
        return seconds[place - 1] + share * (seconds[place] - seconds[place - 1])


def measure(
    runner: Runner,
    form: Form,
    *,
    rows: Sequence[int] = ROWS,
    repeats: int = _REPEATS,
    ready: tuple[int, ...] = (),
) -> StepTimes:
    """Time passes of one sequence, the row counts interleaved, the best of `repeats` taken: what a
    busy neighbour adds to one of them, or the first pass of a shape to itself, is no property of it.

    The runner must not hold anything: its first blocks are written over.
    """
    start = min(_CONTEXT, runner.context // 2)  # what these slots hold does not change the time
    counts = [
        count
        for count in rows
        if form.min_tokens <= count <= form.max_rows and start + count <= runner.context
    ]
    blocks = list(range(-(-(start + max(counts)) // runner.block_size)))
    first: dict[int, list[float]] = {count: [] for count in counts}  # after a pass of other rows
    second: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(repeats):
        for count in counts:
            part = Slice([0] * count, start, blocks, range(count))
            for taken in (first[count], second[count]):
                began = time.perf_counter()
                runner.forward([part])
                taken.append(time.perf_counter() - began)
    steady = {count: min(times) for count, times in second.items()}
    switches = [min(first[count]) - seconds for count, seconds in steady.items() if count not in ready]
    return StepTimes(steady, max(0.0, median(switches or [0.0])), ready)

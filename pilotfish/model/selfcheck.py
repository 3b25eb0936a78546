"""The start-up self-check: which shape of a pass gives rows whose bits never change?

It computes one text several ways on the user's own machine and compares rows bit for bit: widths
from 2 up, real decoding steps whose second token is junk that the next step overwrites, contexts
around block edges, many sequences beside each other, shuffled blocks, odd chunks. Then it measures
how far rows of other shapes are off (one token a sequence, wide passes): the noise of `numeric`.

    proof = prove(runner)
    proof.form.bitwise, proof.form.max_rows, proof.noise

Knows nothing of weights, tokens' meaning or where verdicts are kept.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass

import numpy as np

from pilotfish.errors import PilotfishError
from pilotfish.model.runner import NUMERIC, Form, Runner, Slice

LENGTH = 520  # tokens of the text: past the block edge at 512
SLOTS = 5120  # of the cache, which the check writes over
_EDGES = ((30, 35), (254, 258), (510, 516))  # where decoding steps are tried, around block edges
_WIDTHS = (2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 47, 48)
_NARROW = 32  # a width that the walk tries
_LIMITS = (64, 128, 256, 512)
VERSION = 2  # raise it when the check changes: cached verdicts of older checks are void


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What the self-check found.

    form          the shape proven bit-identical, or NUMERIC
    noise         largest difference in any logit, over passes outside that shape
    compared      rows compared bit for bit
    differing     how many of them differed, in the two-token shape (0 when proven)
    seconds       what the check took
    """

    form: Form
    noise: float
    compared: int
    differing: int
    seconds: float

    def as_dict(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, object]) -> Proof:
        """Read back `as_dict`. Raises KeyError or TypeError for anything else."""
        rest = dict(fields)
        form = rest.pop("form")
        if not isinstance(form, dict):
            raise TypeError(f"a proof's form must be a mapping, found {form!r}")
        return cls(form=Form(**form), **rest)  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.form.bitwise:
            return (
                f"bitwise proven: {self.compared} rows bit-identical with at least {self.form.min_tokens} "
                f"tokens a sequence and at most {self.form.max_rows} a pass; "
                f"other shapes differ by up to {self.noise:.2g}"
            )
        return (
            f"bitwise not proven: {self.differing} of {self.compared} rows differed; "
            f"numeric, with noise of up to {self.noise:.2g} in a logit"
        )


class _Check:
    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        # Even, so that no chunk of the reference is a lone token; one position is left for junk.
        self.length = min(LENGTH, (runner.context - 1) // 2 * 2)
        random = np.random.default_rng(20240823)
        self.text = [int(token) for token in random.integers(0, runner.vocab, self.length)]
        self.junk = [int(token) for token in random.integers(0, runner.vocab, self.length + 64)]
        self.table_blocks = -(-(self.length + 64) // runner.block_size)
        self.compared = 0
        self.differing = 0
        self.worst = 0.0
        self.worst_outside = 0.0
        self.reference = self._reference()

    def table(self, index: int) -> list[int]:
        """A block table of its own per index, in an order of its own."""
        first = index * self.table_blocks
        blocks = list(range(first, first + self.table_blocks))
        return blocks if index % 2 == 0 else blocks[::-1]

    def tables(self) -> int:
        return self.runner.blocks // self.table_blocks

    def _reference(self) -> np.ndarray:
        rows = [self.run(start, 26, self.table(0)) for start in range(0, self.length, 26)]
        return np.concatenate(rows)

    def slice(self, start: int, width: int, table: list[int]) -> Slice:
        tokens = self.text[start : start + width]
        return Slice(tokens, start, table, range(len(tokens)))

    def run(self, start: int, width: int, table: list[int]) -> np.ndarray:
        return self.runner.forward([self.slice(start, width, table)]).logits[0].copy()

    def equal(self, rows: np.ndarray, start: int) -> bool:
        """Compare rows with the reference from `start` on, bit for bit, and count them."""
        expected = self.reference[start : start + len(rows)]
        wrong = int((rows != expected).any(axis=1).sum())
        if wrong:
            self.worst = max(self.worst, float(np.abs(rows - expected).max()))
        self.compared += len(rows)
        self.differing += wrong
        return wrong == 0

    def walk(self) -> bool:
        """Once through the text: every width from 2 up, and around block edges real decoding steps,
        one token and one junk token that the next step overwrites.

        Only forwards: a pass may clear the rest of the last block it writes to, so that what lies
        beyond its end is gone. (No sequence ever goes back without writing again.)
        """
        good, start, table, left = True, 0, self.table(0), list(_WIDTHS)
        while start < self.length:
            room = min([begin - start for begin, _ in _EDGES if begin > start] + [self.length - start])
            width = next((width for width in left if width <= room), 0)
            if width == 0 or any(begin <= start < end for begin, end in _EDGES):
                tokens = [self.text[start], self.junk[start]]
                rows = self.runner.forward([Slice(tokens, start, table, range(1))]).logits[0]
                width = 1
            else:
                left.remove(width)
                rows = self.run(start, width, table)
            left = left or list(_WIDTHS)
            good &= self.equal(rows, start)
            start += width
        return good

    def chunks(self, sizes: tuple[int, ...], limit: int) -> bool:
        """A prefill in odd chunks on fresh, reversed blocks; no chunk leaves a remainder of one."""
        good, start, turn, table = True, 0, 0, self.table(1)
        while start < min(limit, self.length):
            left = self.length - start
            width = left if left <= sizes[turn % len(sizes)] + 1 else sizes[turn % len(sizes)]
            good &= self.equal(self.run(start, width, table), start)
            start, turn = start + width, turn + 1
        return good

    def mixed(self, max_rows: int) -> bool:
        """Several sequences of unequal contexts and widths in one pass, in two orders."""
        parts = [(0, 2), (30, 3), (64, 2), (127, 4), (255, 2), (257, 9)]
        count = min(self.tables() - 2, len(parts))
        parts = [(start, width) for start, width in parts[:count] if start + width <= self.length]
        for index in range(len(parts)):
            self.copy(self.table(index + 2))
        good = True
        for order in (range(len(parts)), range(len(parts) - 1, -1, -1)):
            batch = [self.slice(*parts[index], self.table(index + 2)) for index in order]
            room = max_rows - sum(len(part.tokens) for part in batch)
            if room >= 2:
                batch.append(self.slice(0, min(room, 21), self.table(1)))
            for part, rows in zip(batch, self.runner.forward(batch).logits, strict=True):
                good &= self.equal(rows, part.start)
        return good

    def copy(self, table: list[int]) -> None:
        """Give a table the keys and values that the walk left in the first one."""
        for source, destination in zip(self.table(0), table, strict=True):
            self.runner.copy_block(source, destination)

    def widest(self) -> int:
        """The largest pass, among a few sizes, up to which all give the reference's rows."""
        widest = _NARROW
        for limit in _LIMITS:
            rows = self.run(0, min(limit, self.length), self.table(1))
            if (rows != self.reference[: len(rows)]).any():
                self.worst_outside = float(np.abs(rows - self.reference[: len(rows)]).max())
                break
            self.compared += len(rows)
            widest = limit
        return widest

    def noise(self) -> float:
        """The largest difference in a logit over passes outside the form: one token, wide passes."""
        worst, table = self.worst_outside, self.table(1)
        for probe in [place for edge in _EDGES for place in edge if place < self.length]:
            self.copy(table)
            row = self.run(probe, 1, table)[0]
            worst = max(worst, float(np.abs(row - self.reference[probe]).max()))
        return worst


def prove(runner: Runner) -> Proof:
    """Check the runner; it must not hold anything, since the check writes over its blocks.

    Raises PilotfishError where the cache has fewer than SLOTS slots.
    """
    slots = runner.blocks * runner.block_size
    if slots < SLOTS:
        raise PilotfishError(
            f"the self-check needs a cache of {SLOTS} slots, this one has {slots}; enlarge it"
        )
    began = time.perf_counter()
    check = _Check(runner)
    widest = check.widest()
    edge = runner.block_size
    good = check.walk() and check.chunks((7, 2, 31, 13, 3), limit=4 * edge) and check.mixed(widest)
    noise = max(check.noise(), check.worst)
    form = Form(min_tokens=2, max_rows=widest, bitwise=True) if good else NUMERIC
    return Proof(
        form=form,
        noise=noise,
        compared=check.compared,
        differing=check.differing,
        seconds=time.perf_counter() - began,
    )

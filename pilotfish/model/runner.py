"""What the engine asks of a runtime: one forward pass over a ragged batch.

A pass knows nothing of prefill, decoding or verification. Every sequence brings a few
consecutive tokens; the runtime writes their keys and values into the sequence's blocks and
returns the logits of the wanted ones.

    output = runner.forward([Slice(tokens=[5, 9, 2], start=40, blocks=[3, 7], wanted=range(0, 3))])
    output.logits[0]        # [3, vocab]: what follows 5, what follows 9, what follows 2

Knows nothing of sampling, drafts or requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

Rows = np.ndarray  # float32 [row, vocab]


@dataclass(frozen=True)
class Slice:
    """Consecutive tokens of one sequence in one pass.

        position   0 ........ start ............. start + len(tokens)
                   | in cache | tokens, written now |

    tokens   ids at positions start, start + 1, ...
    start    how many tokens of the sequence the cache already holds
    blocks   the sequence's block table, covering start + len(tokens) slots
    wanted   which of `tokens` (by index) need a row of logits; may be empty
    """

    tokens: Sequence[int]
    start: int
    blocks: Sequence[int]
    wanted: range


@dataclass(frozen=True)
class Output:
    """What a pass returns; the arrays are views, valid until the next pass.

    logits    one [row, vocab] float32 array per slice: a row per wanted token, in order
    features  layer -> one [token, hidden] float32 array per slice: the residual stream after
              that layer, for every token of the slice (only layers tapped at construction)
    """

    logits: list[Rows]
    features: dict[int, list[np.ndarray]] = field(default_factory=dict)


class Runner(Protocol):
    """A target (or draft) model with a paged KV cache of `blocks` blocks of `block_size` slots."""

    @property
    def vocab(self) -> int: ...

    @property
    def context(self) -> int: ...  # most positions of one sequence

    @property
    def block_size(self) -> int: ...

    @property
    def blocks(self) -> int: ...

    def forward(self, batch: Sequence[Slice]) -> Output:
        """One pass. Raises nothing for odd numbers in the logits: the reader of a row checks it."""
        ...

    def copy_block(self, source: int, destination: int) -> None:
        """Copy the keys and values of one block, all layers, onto another."""
        ...


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a pass must be shaped for its rows to have always the same bits.

    min_tokens  every sequence brings at least this many tokens (a pad where it has fewer)
    max_rows    at most this many tokens in one pass
    bitwise     True when the self-check proved that rows of this form are bit-identical
                whatever the batch, the width, the chunking and the block order
    """

    min_tokens: int
    max_rows: int
    bitwise: bool


NUMERIC = Form(min_tokens=1, max_rows=512, bitwise=False)


_MOST_GROUPS = 1024  # columns of the grid that `best_ids` folds a row into


def best_ids(rows: Rows, count: int) -> np.ndarray:
    """The ids of the `count` largest logits of each row, best first: [row, count].

    The vocabulary is folded into columns; the best `count` ids lie in the columns with the best
    maxima, so that only those are sorted (a maximum over rows of a grid is fast, sorting is not).
    """
    length, vocab = rows.shape
    if count <= 0 or length == 0:
        return np.empty((length, max(count, 0)), np.int64)
    if count == 1:
        best: np.ndarray = np.argmax(rows, axis=1)[:, None]
        return best
    groups = min(vocab & -vocab, _MOST_GROUPS)  # the largest power of two that divides the vocabulary
    if groups <= count:
        return np.argsort(-rows, axis=1, kind="stable")[:, :count]
    return np.stack([_best_of_grid(row.reshape(-1, groups), count) for row in rows])


def _best_of_grid(grid: np.ndarray, count: int) -> np.ndarray:
    groups = grid.shape[1]
    chosen = np.argpartition(grid.max(axis=0), groups - count)[groups - count :]
    candidates = grid[:, chosen].ravel()
    best = np.argpartition(candidates, len(candidates) - count)[-count:]
    best = best[np.argsort(-candidates[best])]
    ids: np.ndarray = best // count * groups + chosen[best % count]
    return ids

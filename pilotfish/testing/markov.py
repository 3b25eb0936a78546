"""MarkovTarget: a language model that is a table, so that its law is known exactly.

    target = MarkovTarget.random(seed=1, vocab=5, order=2)
    target.row([0, 3])                                   # [vocab] float32 logits after 0, 3
    MarkovTarget.fixed([1 / 3, 2 / 3]).law([0])          # the same law everywhere

Knows nothing of sampling parameters: rows are raw logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


class MarkovTarget:
    """The next token's law depends on the last `order` tokens (token 0 stands in before the start).

    logits  [vocab ** order, vocab] float32; the context of tokens a, b is row a * vocab + b
    """

    def __init__(self, logits: NDArray[np.float32], *, order: int) -> None:
        contexts, vocab = logits.shape
        if contexts != vocab**order:
            raise ValueError(f"order {order} over {vocab} tokens needs {vocab**order} rows, found {contexts}")
        self.logits = logits.astype(np.float32)
        self.order = order
        self.vocab = vocab

    @classmethod
    def from_laws(cls, laws: ArrayLike, *, order: int) -> MarkovTarget:
        """A table of probabilities; zeros become logits of minus infinity."""
        with np.errstate(divide="ignore"):
            return cls(np.log(np.asarray(laws, np.float64)).astype(np.float32), order=order)

    @classmethod
    def fixed(cls, law: ArrayLike) -> MarkovTarget:
        """One law whatever came before."""
        return cls.from_laws(np.asarray(law, np.float64)[np.newaxis], order=0)

    @classmethod
    def random(
        cls,
        *,
        seed: int,
        vocab: int = 5,
        order: int = 1,
        spread: float = 1.5,
        zeros: float = 0.0,
        ties: bool = False,
    ) -> MarkovTarget:
        """Normal logits of deviation `spread`; a share `zeros` of them becomes minus infinity (never
        a whole row); with `ties` every row's two best logits are equal."""
        generator = np.random.default_rng(seed)
        logits = generator.normal(scale=spread, size=(vocab**order, vocab)).astype(np.float32)
        spared = generator.integers(vocab, size=len(logits))
        struck = generator.random(logits.shape) < zeros
        struck[np.arange(len(logits)), spared] = False
        logits[struck] = -np.inf
        if ties:
            first, second = np.argsort(-logits, axis=1)[:, :2].T
            logits[np.arange(len(logits)), second] = logits[np.arange(len(logits)), first]
        return cls(logits, order=order)

    def row(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """[vocab] the logits after these tokens."""
        context = 0
        recent = list(tokens[-self.order :]) if self.order else []
        for token in [0] * (self.order - len(recent)) + recent:
            context = context * self.vocab + token
        row: NDArray[np.float32] = self.logits[context]
        return row

    def law(self, tokens: Sequence[int], *, temperature: float = 1.0) -> NDArray[np.float64]:
        """[vocab] the law after these tokens: softmax(row / temperature), in float64."""
        scaled = self.row(tokens).astype(np.float64) / temperature
        weights = np.exp(scaled - scaled.max())
        law: NDArray[np.float64] = weights / weights.sum()
        return law

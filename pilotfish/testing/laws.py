"""The exact laws of what plain decoding writes, and of what one verified round writes.

    plain = PlainLaw(target, params, prompt=[0])
    plain.outputs(3)                                                 # {(0, 0, 1): 0.03, ...}
    plain.complete(round_law(plain, table, (1, 1), "rejection"), 3)  # the same

`complete` makes outputs of different lengths comparable: what a round has written is continued by
plain decoding. An output that ends the request is not continued.

Knows nothing of how a rule decides: it goes through all its decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from pilotfish.sampling import Noise, SamplingParams, law
from pilotfish.testing.exact import Fork, ForkedChance, outcomes
from pilotfish.testing.markov import MarkovTarget
from pilotfish.testing.proposers import Sampled
from pilotfish.testing.world import WorldContinuation, run_round
from pilotfish.verify.continuation import Law

Output = tuple[int, ...]


class PlainLaw:
    """One target, one request; laws are computed once per output."""

    def __init__(
        self,
        target: MarkovTarget,
        params: SamplingParams,
        *,
        prompt: Sequence[int],
        eos_ids: Iterable[int] = (),
    ) -> None:
        self.target, self.params = target, params
        self.prompt, self.eos_ids = list(prompt), frozenset(eos_ids)
        self._next: dict[Output, Law | None] = {}

    def continuation(self, output: Output = ()) -> WorldContinuation:
        """The request, with this much written."""
        sequence = WorldContinuation(
            self.prompt, vocab=self.target.vocab, params=self.params, eos_ids=self.eos_ids
        )
        for token in output:
            sequence.append(token, self.target.row(sequence.tokens))
        return sequence

    def next(self, output: Output) -> Law | None:
        """The law of the token after an output; None where the output ends the request."""
        if output not in self._next:
            sequence = self.continuation(output)
            scores = sequence.scores(self.target.row(sequence.tokens))
            self._next[output] = None if sequence.finish_reason else law(scores, self.target.vocab)
        return self._next[output]

    def outputs(self, length: int) -> dict[Output, float]:
        """The law of the first `length` tokens (of fewer, where the request ends before)."""
        return self.complete({(): 1.0}, length)

    def complete(self, written: Mapping[Output, float], length: int) -> dict[Output, float]:
        """The law of the first `length` tokens where `written` is the law of how they begin."""
        finished: dict[Output, float] = {}
        open_ = dict(written)
        while open_:
            output, probability = open_.popitem()
            after = None if len(output) >= length else self.next(output)
            if after is None:
                kept = output[:length]
                finished[kept] = finished.get(kept, 0.0) + probability
                continue
            for token in np.flatnonzero(after).tolist():
                longer = (*output, token)
                open_[longer] = open_.get(longer, 0.0) + probability * float(after[token])
        return finished


def round_law(
    plain: PlainLaw, table: MarkovTarget, widths: Sequence[int], kind: str, *, before: Output = ()
) -> dict[Output, float]:
    """The law of the output after one round that began at `before`, with drafts sampled from a table:
    over all drafts and all decisions of the rule."""
    proposer = Sampled(table, plain.params, Noise(0, 0), widths=widths, eos_ids=plain.eos_ids)

    def one_round(fork: Fork) -> Output:
        sequence = plain.continuation(before)
        draft = proposer.grow(sequence, 99, lambda draft_law, position: fork.choose(draft_law))
        run_round(plain.target, draft, sequence, kind=kind, chance=ForkedChance(fork, sequence.vocab))
        return tuple(sequence.output)

    written: dict[Output, float] = {}
    for output, probability in outcomes(one_round):
        written[output] = written.get(output, 0.0) + probability
    return written

"""One choice of one request as it runs: its tokens, its past, its text, its end.

`Sequence` is what verification writes to (it is a `Continuation`) and what proposers look at
(it is a `Context`). Its *uncomputed* tokens are those without keys and values in the cache yet:
the whole prompt at first, then one. That number is all there is to prefill against decoding.

    tokens    | prompt ........ | output .... |
    computed  |---- in cache ----------|
                                       | uncomputed |

Knows nothing of blocks, batches or drafts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilotfish.engine.request import Request, Timing, TokenLogprobs
from pilotfish.engine.stats import Stats
from pilotfish.engine.text import GrowingText
from pilotfish.sampling import History, Noise, Scores, logprobs, process


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a model allows: vocabulary, positions, and the ids that end a text."""

    vocab: int
    context: int
    eos_ids: frozenset[int]


class Sequence:
    """One choice of a request. Create one per choice; `fork` gives its siblings the same past."""

    def __init__(
        self, request: Request, *, id: int, request_id: int, text: GrowingText, limits: Limits
    ) -> None:
        self.id = id
        self.request_id = request_id
        self.request = request
        self.choice = 0
        self.limits = limits
        self.tokens = list(request.prompt)
        self.prompt_length = len(request.prompt)
        self.computed = 0
        self.noise = Noise(request.seed, 0)
        self.history = History(request.prompt, limits.vocab)
        self.text = text
        self.stats = Stats()
        self.timing = Timing()
        self.logprobs: list[TokenLogprobs] = []
        self.finish_reason: str | None = None
        self.forks = request.params.n - 1  # choices still to fork off when the prompt has been read
        stops = frozenset() if request.params.ignore_eos else limits.eos_ids
        self._stop_ids = stops | request.params.stop_ids

    def fork(self, *, id: int, text: GrowingText) -> Sequence:
        """The next choice of the same request, at the point where the prompt has been read."""
        choice = self.request.params.n - self.forks
        self.forks -= 1
        sibling = Sequence(self.request, id=id, request_id=self.request_id, text=text, limits=self.limits)
        sibling.choice = choice
        sibling.forks = 0
        sibling.noise = Noise(self.request.seed, choice)
        sibling.timing = Timing(added=self.timing.added)
        sibling.computed = self.computed
        return sibling

    @property
    def uncomputed(self) -> int:
        """How many tokens have no keys and values yet."""
        return len(self.tokens) - self.computed

    @property
    def output(self) -> list[int]:
        """The tokens written so far."""
        return self.tokens[self.prompt_length :]

    @property
    def remaining(self) -> int:
        """How many tokens may still be written, by `max_tokens` and by the context."""
        return self.most_tokens - len(self.tokens)

    @property
    def most_tokens(self) -> int:
        """How many tokens prompt and output can come to together."""
        return min(self.prompt_length + self.request.params.max_tokens, self.limits.context)

    # What verification needs: pilotfish.verify.Continuation.

    @property
    def vocab(self) -> int:
        return self.limits.vocab

    @property
    def position(self) -> int:
        """The absolute position of the next token."""
        return self.prompt_length + self.history.output_length

    def scores(self, row: np.ndarray) -> Scores:
        """The target's scores after this history, from a logits row [vocab]."""
        # With ignore_eos the end of text is a token like any other, also before min_tokens.
        return process(row, self.history, self.request.params, self._stop_ids)

    def push(self, token: int) -> None:
        self.history.push(token)

    def pop(self) -> int:
        return self.history.pop()

    def append(self, token: int, row: np.ndarray) -> bool:
        """Commit a token. True when the request is finished and nothing may follow."""
        params = self.request.params
        if params.logprobs is not None:
            source = row if params.logprobs_mode == "raw" else self.scores(row)
            self.logprobs.append(_logprobs(source, token, params.logprobs))
        self.tokens.append(token)
        self.history.push(token)
        if token in self._stop_ids:
            self.finish_reason = "stop"
            self.text.close(stops=False)
        elif self.text.push(token, stops=self.history.output_length >= params.min_tokens):
            self.finish_reason = "stop"
        elif self.remaining <= 0:
            self.finish_reason = "stop" if self.text.close() else "length"
        return self.finish_reason is not None


def _logprobs(source: np.ndarray | Scores, token: int, top: int) -> TokenLogprobs:
    found = logprobs(source, token, top)
    top_ids, top_logprobs = found.top_ids.tolist(), found.top_logprobs.tolist()
    return TokenLogprobs(token, found.logprob, tuple(zip(top_ids, top_logprobs, strict=True)))

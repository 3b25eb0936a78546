"""What a weight form costs in quality: every form and activation beside the stored weights, on one text.

    for quality in compare(llm.target, tokens): print(quality.weights, quality.perplexity)

Each token of the text is predicted from those before it. The same passes run on the stored weights with
f32 activations and on the form that is judged, chunk by chunk, so that no logits need to be kept. Knows
nothing of prompts, sampling or speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pilotfish.bench.report import grid
from pilotfish.bench.workload import BUILT_IN, read_prompts, spread
from pilotfish.errors import BadRequest
from pilotfish.model.load import Target, runner_in_form
from pilotfish.model.runner import Rows, Runner, Slice

MOST_TOKENS = 2048
CHUNK = 64
# float weights have nothing to quantise activations for
COMBINATIONS = (
    ("stored", "f32"), ("stored", "int8"), ("f32", "f32"), ("f16", "f32"),
    ("int8", "f32"), ("int8", "int8"), ("int4", "f32"), ("int4", "int8"),
)  # fmt: skip
Show = Callable[[float, str], None]


@dataclass(frozen=True, kw_only=True)
class Quality:
    """One form against the stored weights with f32 activations.

    divergence  mean KL divergence of its law from the stored weights' law, in nats a token
    agreement   share of tokens where both have the same argmax
    bytes_held  of the weights in this form; a tied embedding counts once
    """

    weights: str
    activations: str
    perplexity: float
    divergence: float
    agreement: float
    bytes_held: int


@dataclass(frozen=True, kw_only=True)
class Score:
    """What one runner makes of a text, beside a reference; see Quality."""

    perplexity: float
    divergence: float
    agreement: float


def read_text(path: Path | None) -> str:
    """A UTF-8 file, or the built-in prompts' texts, categories in turn. Raises BadRequest."""
    if path is None:
        return "\n\n".join(turn for prompt in spread(read_prompts(None)) for turn in prompt.turns)
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as problem:
        raise BadRequest(f"{path}: not UTF-8 (byte {problem.start}); save the file as UTF-8") from None
    except OSError as problem:
        raise BadRequest(f"cannot read a text from {path}: {problem.strerror or problem}") from None


def text_tokens(target: Target, text: str) -> list[int]:
    """The first tokens of a text, at most MOST_TOKENS and a context. Raises BadRequest for a text of none."""
    tokens = target.tokenizer.prompt(text)[: min(MOST_TOKENS, target.runner.context)]
    if len(tokens) < 3:
        raise BadRequest(
            f"perplexity needs a text of at least 3 tokens, found {len(tokens)}; give a longer one"
        )
    return tokens


def compare(target: Target, tokens: Sequence[int], show: Show = lambda share, note: None) -> list[Quality]:
    """All COMBINATIONS, the stored weights first. Two models are held at a time."""
    slots = len(tokens) + CHUNK
    reference = runner_in_form(target, weights="stored", activations="f32", cache_tokens=slots)
    found: list[Quality] = []
    for turn, (weights, activations) in enumerate(COMBINATIONS):
        show(turn / len(COMBINATIONS), f"{weights} weights, {activations} activations")
        judged = reference
        if turn:
            judged = runner_in_form(target, weights=weights, activations=activations, cache_tokens=slots)
        result = score(judged, reference, tokens)
        found.append(
            Quality(
                weights=weights,
                activations=activations,
                bytes_held=judged.weight_bytes,
                perplexity=result.perplexity,
                divergence=result.divergence,
                agreement=result.agreement,
            )
        )
    return found


def score(judged: Runner, reference: Runner, tokens: Sequence[int]) -> Score:
    """Perplexity of one runner on a text of at least 3 tokens, and its distance from a reference."""
    surprise = divergence = 0.0
    agreeing = start = 0
    own = _passes(judged, tokens)
    others = own if judged is reference else _passes(reference, tokens)
    for laws in own:
        # Where both are one runner, one pass gives both.
        known = laws if judged is reference else next(others)
        following = np.asarray(tokens[start + 1 : start + 1 + len(laws)])
        surprise -= float(laws[np.arange(len(laws)), following].sum())
        divergence += float((np.exp(known) * (known - laws)).sum())
        agreeing += int((known.argmax(axis=1) == laws.argmax(axis=1)).sum())
        start += len(laws)
    return Score(
        perplexity=math.exp(surprise / start), divergence=divergence / start, agreement=agreeing / start
    )


def _passes(runner: Runner, tokens: Sequence[int]) -> Iterator[Rows]:
    """The log-probabilities after every token but the last, float64, in chunks of up to CHUNK rows."""
    last = len(tokens) - 1
    blocks = list(range(-(-last // runner.block_size)))
    start = 0
    while start < last:
        width = min(CHUNK, last - start)
        # No chunk leaves one token alone: it would take another kernel.
        width -= last - start - width == 1
        rows = runner.forward([Slice(tokens[start : start + width], start, blocks, range(width))]).logits[0]
        yield _log_softmax(rows)
        start += width


def _log_softmax(rows: Rows) -> Rows:
    wide = rows.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


def perplexity_table(found: Sequence[Quality], *, name: str, tokens: int) -> str:
    """The comparison as a table for people."""
    head = ("weights", "activations", "perplexity", "KL, nats", "same argmax", "weights, MB")
    rows = [
        (
            one.weights,
            one.activations,
            f"{one.perplexity:.3f}",
            f"{one.divergence:.2e}",
            f"{one.agreement:.1%}",
            f"{one.bytes_held / 1e6:.1f}",
        )
        for one in found
    ]
    note = f"{name}, {tokens} tokens; KL and argmax against stored weights with f32 activations"
    return "\n".join([*grid([head, *rows]), note])


def text_name(path: Path | None) -> str:
    """What a report calls the text."""
    return BUILT_IN if path is None else path.name

"""What is told about a finished request: the JSON object, and the small table of `--stats`.

    print(json_line(completion_fields(model, completion, logprobs=False)))
    print(stats_table(model, completion), file=sys.stderr)

Knows nothing of how the request ran.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from pilotfish.engine.request import TokenLogprobs
from pilotfish.engine.stats import Stats
from pilotfish.llm import LLM, Choice, Completion
from pilotfish.model.tokenizer import Tokenizer


@dataclass(frozen=True)
class Speed:
    """Times of a request in seconds; None where nothing was written, or too little to tell.

    ttft  from the request to the first token
    itl   between tokens after the first, the mean
    rate  tokens a second over the whole request
    """

    ttft: float | None
    itl: float | None
    rate: float | None

    @classmethod
    def of(cls, choices: list[Choice]) -> Speed:
        """Of one choice, or of several that ran together."""
        written = [choice for choice in choices if choice.timing.first_token]
        if not written:
            return cls(None, None, None)
        added = min(choice.timing.added for choice in written)
        first = min(choice.timing.first_token for choice in written)
        last = max(choice.timing.last_token for choice in written)
        steps = sum(len(choice.token_ids) - 1 for choice in written)
        decoding = sum(choice.timing.last_token - choice.timing.first_token for choice in written)
        tokens = steps + len(written)
        return cls(first - added, decoding / steps if steps else None, tokens / max(last - added, 1e-9))


def json_line(fields: Mapping[str, object]) -> str:
    """One line of JSON."""
    return json.dumps(fields, ensure_ascii=False, allow_nan=False)


def completion_fields(model: LLM, completion: Completion, *, logprobs: bool) -> dict[str, object]:
    """The fields of `generate --json`."""
    choices, tokenizer = completion.choices, model.target.tokenizer
    speed = Speed.of(choices)
    fields: dict[str, object] = {
        **_choice_fields(choices[0], tokenizer, logprobs),
        "seed": completion.seed,
        "usage": {
            "prompt_tokens": completion.prompt_tokens,
            "completion_tokens": sum(len(choice.token_ids) for choice in choices),
        },
        "timing": {
            "ttft_s": _rounded(speed.ttft, 6),
            "itl_ms": _rounded(speed.itl, 4, 1000),
            "tokens_per_second": _rounded(speed.rate, 3),
        },
        "speculation": {"draft": model.speculation.draft, **completion.stats.as_dict()},
        "exactness": model.target.exactness,
        "weights": model.target.options.used_weights,
        "activations": model.target.options.used_activations,
    }
    if len(choices) > 1:
        fields["choices"] = [
            {"index": index, **_choice_fields(choice, tokenizer, logprobs)}
            for index, choice in enumerate(choices)
        ]
    return fields


def _choice_fields(choice: Choice, tokenizer: Tokenizer, logprobs: bool) -> dict[str, object]:
    fields: dict[str, object] = {
        "text": choice.text,
        "token_ids": choice.token_ids,
        "finish_reason": choice.finish_reason,
    }
    if choice.error is not None:
        fields["error"] = choice.error
    if logprobs:
        fields["logprobs"] = [_logprob_fields(entry, tokenizer) for entry in choice.logprobs]
    return fields


def _logprob_fields(entry: TokenLogprobs, tokenizer: Tokenizer) -> dict[str, object]:
    def one(token: int, logprob: float) -> dict[str, object]:
        # JSON has no infinity.
        shown = float(logprob) if math.isfinite(logprob) else None
        return {
            "token": int(token),
            "text": tokenizer.decode([token], skip_control=False, continues=True),
            "logprob": shown,
        }

    return {**one(entry.token, entry.logprob), "top": [one(token, logprob) for token, logprob in entry.top]}


def _rounded(value: float | None, digits: int, factor: float = 1) -> float | None:
    return None if value is None else round(value * factor, digits)


def stats_table(model: LLM, completion: Completion) -> str:
    """What speculation did and how fast it was, a line each."""
    stats, speed, target = completion.stats, Speed.of(completion.choices), model.target
    lines = {
        **_counts(stats),
        "time to first token": _measured(speed.ttft, 1000, "ms"),
        "inter-token latency": _measured(speed.itl, 1000, "ms"),
        "tokens per second": _measured(speed.rate, 1, ""),
        "seed": str(completion.seed),
        "draft": f"{model.speculation.draft} ({model.speculation.verification})",
        "exactness": target.exactness,
        "weights, activations": f"{target.options.used_weights}, {target.options.used_activations}",
    }
    return "\n".join(f"{name:<24}{value}" for name, value in lines.items())


def _counts(stats: Stats) -> dict[str, str]:
    sources = [
        f"{source} {stats.accepted_by_source.get(source, 0)}/{drafted}"
        for source, drafted in sorted(stats.drafted_by_source.items())
    ]
    return {
        "tokens": str(stats.emitted_tokens),
        "rounds": f"{stats.rounds}, {stats.drafted_rounds} of them drafted",
        "draft tokens": str(stats.draft_tokens),
        "accepted": f"{stats.accepted_tokens} ({stats.acceptance_rate:.0%})",
        "mean acceptance length": f"{stats.mean_acceptance_length:.2f}",
        "accepted per position": " ".join(map(str, stats.accepted_per_position)) or "-",
        "by source": ", ".join(sources) or "-",
    }


def _measured(value: float | None, factor: float, unit: str) -> str:
    return "-" if value is None else f"{value * factor:.1f} {unit}".rstrip()

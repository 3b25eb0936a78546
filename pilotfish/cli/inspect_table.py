"""The report of `inspect` for people, made of the fields of `inspect --json`.

    print(table(report(options, facts, cost)))

Knows nothing of where the fields come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SHOWN_ROWS = ("1", "2", "3", "4", "5", "8", "16", "32")

Fields = Mapping[str, Any]


def table(fields: Fields) -> str:
    """A line for each fact; `-` is what could not be read."""
    lines = _model(fields) | (_cost(fields) if fields["memory_estimate"] is not None else {})
    title = f"{fields['name']} ({fields['architecture'] or 'unknown architecture'})"
    shown = [title, str(fields["path"]), ""]
    shown += [f"{name:<22}{text}" for name, text in lines.items()]
    shown += ["", *(f"cannot run: {' '.join(reason.split())}" for reason in fields["problems"])]
    return "\n".join(shown).rstrip()


def _model(fields: Fields) -> dict[str, str]:
    formats = [
        f"{kind}: {one['tensors']} tensors, {_size(one['bytes'])}" for kind, one in fields["formats"].items()
    ]
    return {
        "parameters": _count(fields["parameters"]),
        "layers": f"{_text(fields['layers'])}, {_text(fields['hidden'])} wide,"
        f" feed-forward {_text(fields['intermediate'])}",
        "heads": f"{_text(fields['heads'])}, {_text(fields['kv_heads'])} of keys and values,"
        f" each {_text(fields['head_dim'])} wide",
        "context": f"{_text(fields['context'])} tokens",
        "vocabulary": _text(fields["vocab"]),
        "stored": "; ".join(formats) or "-",
        "tokenizer": _tokenizer(fields["tokenizer"]),
        "used here": f"{fields['weights']} weights, {fields['activations']} activations,"
        f" {fields['threads']} threads",
    }


def _tokenizer(found: Fields) -> str:
    parts = [_text(found["kind"]), f"{_text(found['size'])} ids"]
    parts.append("chat template" if found["chat_template"] else "no chat template")
    if "eos_ids" in found:
        parts.append(f"ends a text: {', '.join(map(str, found['eos_ids'])) or '-'}")
        added = "added to every raw prompt" if found["adds_bos"] else "not added"
        parts.append(f"begins one: {_text(found['bos_id'])} ({added})")
    return "; ".join(parts)


def _cost(fields: Fields) -> dict[str, str]:
    memory, token = fields["memory_estimate"], fields["kv_bytes_per_token"]
    weights, mapped, cache = (_size(memory[f"{part}_bytes"]) for part in ("weights", "mapped", "cache"))
    return {
        "keys and values": f"{token} bytes a token",
        "exactness": _exactness(fields),
        "step time": _steps(fields),
        "memory, estimated": f"{weights} of weights, {mapped} of them mapped from a file; {cache} for a cache"
        f" of {memory['cache_tokens']} tokens as it fills; 100 to 200 MB for the runtime",
    }


def _exactness(fields: Fields) -> str:
    proof = fields["proof"]
    if proof is None:
        return "not measured yet; --measure does it"
    rows = f"{proof['compared'] - proof['differing']} of {proof['compared']} rows had the same bits"
    return f"{fields['exactness']} ({rows} in the self-check; other shapes differ by {proof['noise']:.2g})"


def _steps(fields: Fields) -> str:
    measured = fields["step_ms_by_rows"]
    if measured is not None:
        shown = [f"{rows}: {measured[rows]:.1f}" for rows in _SHOWN_ROWS if rows in measured]
        return f"measured, ms by rows: {', '.join(shown)}"
    rate = fields["bandwidth_bytes_per_second"]
    return (
        f"about {fields['step_ms_estimate']:.1f} ms for a few rows (estimate: the weights once at the"
        f" {rate / 1e9:.1f} GB/s that copies reach; --measure measures it)"
    )


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def _count(value: int | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1e9:.2f} billion" if value >= 1e9 else f"{value / 1e6:.1f} million"


def _size(value: int) -> str:
    return f"{value / 1e9:.2f} GB" if value >= 1e9 else f"{value / 1e6:.1f} MB"

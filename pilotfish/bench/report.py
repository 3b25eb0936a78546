"""A benchmark's result as tables for a terminal, and as the JSON object of `bench --json`.

    print(table(result))
    print(json.dumps(as_dict(result)))

Knows nothing of how anything was measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotfish.bench.figures import Figures, Part, peak_memory_bytes
from pilotfish.bench.run import Result, Run

HEAD = (
    "task", "prompts", "tokens", "plain tok/s", "spec tok/s", "speedup_decode", "speedup_e2e",
    "acceptance", "mean length", "identical",
)  # fmt: skip


def table(result: Result) -> str:
    """Everything a reader needs beside each other: one table a draft, and what it was measured on."""
    lines: list[str] = []
    for run in result.runs:
        figures = Figures.of(run, result.plain)
        lines += ["", f"draft {run.side.draft}, {_setting(result, run)}"]
        rows = [_row(name, part) for name, part in figures.by_category.items()]
        lines += grid([HEAD, *rows, _row("overall", figures.overall)], ruled=len(rows) > 0)
        lines += ["  " + line for line in _notes(figures)]
    lines += ["", *_baselines(result), *_conditions(result)]
    return "\n".join(lines).lstrip("\n")


def grid(rows: Sequence[Sequence[str]], *, ruled: bool = False) -> list[str]:
    """Columns lined up, the first to the left; `ruled`: a line under the head and above the last row."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    if ruled:
        rule = "-" * len(lines[0])
        lines = [lines[0], rule, *lines[1:-1], rule, lines[-1]]
    return lines


def _row(name: str, part: Part) -> tuple[str, ...]:
    return (
        name,
        str(part.prompts),
        str(part.tokens),
        f"{part.plain_tokens_per_second:.1f}",
        f"{part.tokens_per_second:.1f}",
        f"{part.speedup_decode:.2f}",
        f"{part.speedup_e2e:.2f}",
        f"{part.stats.acceptance_rate:.1%}",
        f"{part.stats.mean_acceptance_length:.2f}",
        "yes" if part.identical else "NO",
    )


def _setting(result: Result, run: Run) -> str:
    speculation, params = result.llm.speculation, result.params
    ends = "end-of-text ignored" if params.ignore_eos else "end-of-text respected"
    return (
        f"draft length {speculation.draft_length}, {speculation.verification}, {run.side.exactness}, "
        f"temperature {params.temperature:g}, {params.max_tokens} new tokens, {ends}, "
        f"{result.options.concurrency} at a time, repeated {result.options.repeat} x"
    )


def _notes(figures: Figures) -> list[str]:
    stats = figures.overall.stats
    per_position = " ".join(map(str, stats.accepted_per_position)) or "none"
    by_source = ", ".join(
        f"{source} {stats.accepted_by_source.get(source, 0)} of {drafted}"
        for source, drafted in sorted(stats.drafted_by_source.items())
    )
    shares = ", ".join(f"{name} {share:.1%}" for name, share in figures.shares.items())
    lines = [
        _latency("TTFT", figures.ttft_ms) + "; " + _latency("ITL", figures.itl_ms),
        f"accepted by position: {per_position}; by source: {by_source or 'none'}",
        f"time: {shares}; outside the forward pass {figures.outside_ms:.2f} ms a step",
    ]
    if figures.differing:
        lines.append(f"NOT IDENTICAL with the plain run: {', '.join(figures.differing)}")
    return lines


def _latency(name: str, found: Mapping[str, float]) -> str:
    return f"{name} ms " + " ".join(f"{key} {value:.1f}" for key, value in found.items())


def _baselines(result: Result) -> list[str]:
    lines: list[str] = []
    for run, words in (
        (result.plain, "two rows a sequence" if result.numeric else "one row a sequence"),
        (result.numeric, "one row a sequence"),
    ):
        if run is None:
            continue
        figures = Figures.of(run, result.plain)
        itl = figures.itl_ms["mean"]
        lines.append(
            f"plain, {run.side.exactness} ({words}): {figures.overall.tokens_per_second:.1f} tok/s, "
            f"ITL {itl:.1f} ms, TTFT {figures.ttft_ms['mean']:.1f} ms"
        )
    if result.numeric is not None:
        for run in result.runs:
            against = Figures.of(run, result.numeric).overall
            lines.append(
                f"  {run.side.draft} against plain, numeric: decode {against.speedup_decode:.2f}, "
                f"end to end {against.speedup_e2e:.2f}"
            )
    return lines


def _conditions(result: Result) -> list[str]:
    target = result.llm.target
    machine = ", ".join(
        f"{value} threads" if key == "threads" else str(value) for key, value in target.machine.items()
    )
    lines = [
        f"target {target.options.target} ({target.name}), weights "
        f"{target.options.used_weights}, activations {target.options.used_activations}, {target.exactness}",
        f"machine {machine}; peak memory {peak_memory_bytes() / 2**20:.0f} MiB",
    ]
    if result.skipped:
        names = ", ".join(result.skipped)
        lines.append(f"{len(result.skipped)} prompts do not fit the context and were skipped: {names}")
    turns = Figures.of(result.plain, result.plain).skipped_turns
    if turns:
        lines.append(f"{turns} later turns do not fit the context and were skipped")
    return lines


# JSON.


def as_dict(result: Result) -> dict[str, object]:
    """The object of `bench --json`."""
    target = result.llm.target
    return {
        "target": target.options.target,
        "weights": target.options.used_weights,
        "activations": target.options.used_activations,
        "machine": target.machine,
        "max_tokens": result.params.max_tokens,
        "ignore_eos": result.params.ignore_eos,
        "repeat": result.options.repeat,
        "skipped_prompts": result.skipped,
        "runs": [_run(result, run) for run in result.runs],
        "plain": _run(result, result.plain),
        "plain_numeric": _run(result, result.numeric) if result.numeric else None,
    }


def _run(result: Result, run: Run) -> dict[str, object]:
    figures = Figures.of(run, result.plain)
    fields: dict[str, object] = {
        "draft": run.side.draft,
        "draft_length": result.llm.speculation.draft_length,
        "exactness": run.side.exactness,
        "verification": result.llm.speculation.verification,
        "temperature": result.params.temperature,
        "concurrency": result.options.concurrency,
        "prompts": figures.prompts,
        "replies": figures.replies,
        "output_tokens": figures.overall.tokens,
        "output_tokens_per_second": round(figures.overall.tokens_per_second, 3),
        "requests_per_second": round(figures.requests_per_second, 4),
        "ttft_ms": _rounded(figures.ttft_ms),
        "itl_ms": _rounded(figures.itl_ms),
        **figures.overall.stats.as_dict(),
        "peak_memory_bytes": peak_memory_bytes(),
        "speedup_decode": round(figures.overall.speedup_decode, 4),
        "speedup_e2e": round(figures.overall.speedup_e2e, 4),
        "identical": figures.overall.identical,
        "identical_prompts": figures.prompts - len(figures.differing),
        "differing_prompts": figures.differing,
        "skipped_turns": figures.skipped_turns,
        "time_shares": {name: round(share, 4) for name, share in figures.shares.items()},
        "outside_forward_ms_per_step": round(figures.outside_ms, 4),
        "by_category": {name: _category(part) for name, part in figures.by_category.items()},
    }
    if result.numeric is not None and run in result.runs:
        against = Figures.of(run, result.numeric).overall
        fields["speedup_decode_over_numeric"] = round(against.speedup_decode, 4)
        fields["speedup_e2e_over_numeric"] = round(against.speedup_e2e, 4)
    return fields


def _rounded(found: Mapping[str, float]) -> dict[str, float]:
    return {key: round(value, 3) for key, value in found.items()}


def _category(part: Part) -> dict[str, object]:
    return {
        "prompts": part.prompts,
        "output_tokens": part.tokens,
        "plain_tokens_per_second": round(part.plain_tokens_per_second, 3),
        "output_tokens_per_second": round(part.tokens_per_second, 3),
        "speedup_decode": round(part.speedup_decode, 4),
        "speedup_e2e": round(part.speedup_e2e, 4),
        "acceptance_rate": round(part.stats.acceptance_rate, 4),
        "mean_acceptance_length": round(part.stats.mean_acceptance_length, 4),
        "identical": part.identical,
    }

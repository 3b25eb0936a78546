"""Figures of a run against the plain run of the same invocation.

    figures = Figures.of(run, plain)
    figures.speedup_decode, figures.itl_ms["p95"], figures.by_category["code"].acceptance_rate

Laws. A reply's inter-token latency is (last - first token time) / (tokens - 1). Speed-ups are pooled
over replies: `decode` compares all seconds after first tokens per token after a first one, so that
prefill is left out; `e2e` compares all seconds. With repeats, each reply's times are medians.
Counts of rounds and tokens are those of the first repeat. Knows nothing of terminals.
"""

from __future__ import annotations

import resource
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

from pilotfish.bench.run import Run
from pilotfish.bench.serve import Group, Reply
from pilotfish.engine.stats import Stats

Key = tuple[str, int]  # prompt id and turn


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One reply with its times as medians over repeats."""

    category: str
    tokens: int
    ttft: float
    decode: float
    wall: float

    @property
    def itl(self) -> float | None:
        """Mean seconds between its tokens; None for fewer than two."""
        return self.decode / (self.tokens - 1) if self.tokens > 1 else None


def medians(repeats: Sequence[Sequence[Group]]) -> dict[Key, Timed]:
    """The replies of a run, each with its median times."""
    found: dict[Key, list[Reply]] = {}
    for groups in repeats:
        for reply in _replies(groups):
            found.setdefault((reply.prompt_id, reply.turn), []).append(reply)
    return {
        key: Timed(
            category=replies[0].category,
            tokens=len(replies[0].token_ids),
            ttft=median(reply.ttft for reply in replies),
            decode=median(reply.decode for reply in replies),
            wall=median(reply.wall for reply in replies),
        )
        for key, replies in found.items()
    }


def _replies(groups: Iterable[Group]) -> list[Reply]:
    return [reply for group in groups for reply in group.replies]


def wall_seconds(repeats: Sequence[Sequence[Group]]) -> float:
    """Seconds of all groups, each the median over repeats."""
    return sum((float(median(group.wall for group in same)) for same in zip(*repeats, strict=True)), 0.0)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Mean, p50, p95 and p99 in milliseconds; zeros where there is nothing to measure."""
    if not seconds:
        return dict.fromkeys(("mean", "p50", "p95", "p99"), 0.0)
    values = np.array(seconds) * 1e3
    points = np.percentile(values, (50, 95, 99))
    return {"mean": float(values.mean())} | dict(zip(("p50", "p95", "p99"), points.tolist(), strict=True))


def inter_token(replies: Iterable[Timed]) -> float:
    """Pooled mean inter-token latency in seconds: 0 where no reply has two tokens."""
    several = [reply for reply in replies if reply.tokens > 1]
    gaps = sum(reply.tokens - 1 for reply in several)
    return sum(reply.decode for reply in several) / gaps if gaps else 0.0


def _ratio(plain: float, other: float) -> float:
    return plain / other if other > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Part:
    """The figures of one category, or of all. Rates per second.

    tokens_per_second  output tokens over the seconds of the replies, prefill included
    identical          every reply has the plain run's token ids
    """

    prompts: int
    tokens: int
    plain_tokens_per_second: float
    tokens_per_second: float
    speedup_decode: float
    speedup_e2e: float
    stats: Stats
    identical: bool


@dataclass(frozen=True, kw_only=True)
class Figures:
    """All figures of one run; see the module for the laws.

    differing  ids of prompts whose tokens are not those of the plain run
    shares     share of the wall time in each part of the steps; "rest" is what is outside them
    outside_ms milliseconds of a step that are not the forward pass
    """

    overall: Part
    by_category: dict[str, Part]
    replies: int
    requests_per_second: float
    ttft_ms: dict[str, float]
    itl_ms: dict[str, float]
    prompts: int
    differing: list[str]
    shares: dict[str, float]
    outside_ms: float
    skipped_turns: int

    @classmethod
    def of(cls, run: Run, plain: Run) -> Figures:
        """The figures of `run`; of the plain run itself with `plain` twice."""
        mine, others = medians(run.repeats), medians(plain.repeats)
        wall, plain_wall = wall_seconds(run.repeats), wall_seconds(plain.repeats)
        first = _replies(run.repeats[0])
        differing = differing_prompts(run, plain)
        categories = list(dict.fromkeys(reply.category for reply in first))
        shares, outside = _shares(run)
        return cls(
            overall=_part(first, mine, others, differing, walls=(wall, plain_wall)),
            by_category={
                name: _part([r for r in first if r.category == name], mine, others, differing)
                for name in categories
            },
            replies=len(first),
            requests_per_second=_ratio(len(first), wall),
            ttft_ms=percentiles([reply.ttft for reply in mine.values()]),
            itl_ms=percentiles([reply.itl for reply in mine.values() if reply.itl is not None]),
            prompts=len({reply.prompt_id for reply in first}),
            differing=differing,
            shares=shares,
            outside_ms=outside,
            skipped_turns=sum(group.skipped_turns for group in run.repeats[0]),
        )


def _part(
    replies: Sequence[Reply],
    mine: dict[Key, Timed],
    others: dict[Key, Timed],
    differing: Sequence[str],
    *,
    walls: tuple[float, float] | None = None,
) -> Part:
    """`walls`: the seconds of the run and of the plain run, where they are not those of the replies."""
    keys = [(reply.prompt_id, reply.turn) for reply in replies]
    here = [mine[key] for key in keys]
    there = [timed for key, timed in others.items() if key in set(keys)]
    wall, plain_wall = walls or (sum(t.wall for t in here), sum(t.wall for t in there))
    tokens, stats = sum(timed.tokens for timed in here), Stats()
    for reply in replies:
        stats.add(reply.stats)
    return Part(
        prompts=len({reply.prompt_id for reply in replies}),
        tokens=tokens,
        plain_tokens_per_second=_ratio(sum(timed.tokens for timed in there), plain_wall),
        tokens_per_second=_ratio(tokens, wall),
        speedup_decode=_ratio(inter_token(there), inter_token(here)),
        speedup_e2e=_ratio(plain_wall, wall),
        stats=stats,
        identical=not {prompt for prompt, _ in keys} & set(differing),
    )


def differing_prompts(run: Run, plain: Run) -> list[str]:
    """Prompts with any reply, in any repeat, that has not the tokens of the plain run's first repeat."""
    expected = {(reply.prompt_id, reply.turn): reply.token_ids for reply in _replies(plain.repeats[0])}
    wrong: dict[str, None] = {}
    for groups in run.repeats:
        found = {(reply.prompt_id, reply.turn): reply.token_ids for reply in _replies(groups)}
        for key in expected | found:
            if expected.get(key) != found.get(key):
                wrong[key[0]] = None
    return list(wrong)


def _shares(run: Run) -> tuple[dict[str, float], float]:
    """Shares of the wall time of all repeats, and milliseconds outside the forward pass per step."""
    groups = [group for repeat in run.repeats for group in repeat]
    wall, steps = sum(group.wall for group in groups), sum(group.steps for group in groups)
    parts: dict[str, float] = {}
    for seconds in run.seconds:
        for name, spent in seconds.items():
            parts[name] = parts.get(name, 0.0) + spent
    parts["rest"] = max(0.0, wall - sum(parts.values()))
    outside = 1e3 * max(0.0, wall - parts.get("forward", 0.0)) / steps if steps else 0.0
    return {name: _ratio(spent, wall) for name, spent in parts.items()}, outside


def peak_memory_bytes() -> int:
    """The most memory this process has held so far (all sides of a benchmark share the model)."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) * 1024
    except (OSError, StopIteration, ValueError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB

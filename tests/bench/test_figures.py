"""Statistics and speed-up laws on timings made up here, and the report of such a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pilotfish.bench.figures import Figures, percentiles
from pilotfish.bench.picture import draw
from pilotfish.bench.progress import Bar, duration
from pilotfish.bench.report import as_dict, table
from pilotfish.bench.run import BenchOptions, Result, Run, Side
from pilotfish.bench.serve import Group, Reply
from pilotfish.bench.workload import Prompt
from pilotfish.engine.stats import Stats
from pilotfish.errors import PilotfishError
from pilotfish.llm import LLM
from pilotfish.sampling import SamplingParams


def stats(rounds: int, accepted: int) -> Stats:
    return Stats(
        rounds=rounds,
        drafted_rounds=rounds,
        draft_tokens=2 * rounds,
        accepted_tokens=accepted,
        emitted_tokens=rounds + accepted,
        accepted_per_position=[accepted],
        drafted_by_source={"suffix": 2 * rounds},
        accepted_by_source={"suffix": accepted},
    )


def reply(
    name: str, tokens: int, ttft: float, decode: float, *, category: str = "chat", first: int = 7
) -> Reply:
    return Reply(
        prompt_id=name,
        category=category,
        turn=0,
        prompt=(1, 2),
        token_ids=(first, *range(1, tokens)),
        ttft=ttft,
        decode=decode,
        stats=stats(rounds=2, accepted=tokens - 2),
    )


def run(name: str, *repeats: Sequence[Reply | None]) -> Run:
    """A run with one prompt a group; None is a prompt without a reply."""
    side = Side(
        name=name,
        draft="none" if name == "plain" else name,
        exactness="bitwise",
        fresh=lambda: cast(LLM, None),
    )
    groups = [
        [Group([one] if one else [], wall=one.wall if one else 0.0, steps=2) for one in replies]
        for replies in repeats
    ]
    return Run(side, groups, [{"forward": 0.5, "propose": 0.1}] * len(repeats))


PLAIN = run("plain", [reply("a", 11, 1.0, 10.0), reply("b", 5, 1.0, 2.0, category="code")])
SPEC = run("suffix", [reply("a", 11, 1.0, 4.0), reply("b", 5, 2.0, 3.0, category="code")])


def test_speed_ups_are_pooled_and_decode_leaves_prefill_out() -> None:
    figures = Figures.of(SPEC, PLAIN)
    assert figures.overall.speedup_decode == pytest.approx((12 / 14) / (7 / 14))
    assert figures.overall.speedup_e2e == pytest.approx(14 / 10)
    assert figures.overall.tokens_per_second == pytest.approx(16 / 10)
    assert figures.overall.plain_tokens_per_second == pytest.approx(16 / 14)
    assert figures.by_category["chat"].speedup_decode == pytest.approx(2.5)
    assert figures.by_category["code"].speedup_e2e == pytest.approx(3 / 5)
    assert figures.itl_ms["mean"] == pytest.approx(1e3 * (0.4 + 0.75) / 2)
    assert figures.ttft_ms["mean"] == pytest.approx(1500)
    assert figures.requests_per_second == pytest.approx(0.2)


def test_the_plain_run_against_itself_is_one() -> None:
    figures = Figures.of(PLAIN, PLAIN)
    assert (figures.overall.speedup_decode, figures.overall.speedup_e2e, figures.differing) == (1, 1, [])


def test_counts_are_of_the_first_repeat_and_times_are_medians_over_repeats() -> None:
    times = [[reply("a", 11, 1.0, decode)] for decode in (4.0, 99.0, 6.0)]
    figures = Figures.of(run("suffix", *times), run("plain", *[[reply("a", 11, 1.0, 12.0)]] * 3))
    assert figures.overall.speedup_decode == pytest.approx(2)
    assert (figures.overall.tokens, figures.overall.stats.accepted_tokens) == (11, 9)
    assert figures.overall.tokens_per_second == pytest.approx(11 / 7)


def test_one_token_has_no_inter_token_latency() -> None:
    figures = Figures.of(run("suffix", [reply("a", 1, 1.0, 0.0)]), run("plain", [reply("a", 1, 2.0, 0.0)]))
    assert figures.itl_ms == dict.fromkeys(("mean", "p50", "p95", "p99"), 0.0)
    assert (figures.overall.speedup_decode, figures.overall.speedup_e2e) == (0.0, 2.0)


def test_percentiles() -> None:
    found = percentiles([number / 1000 for number in range(101)])
    assert found == pytest.approx({"mean": 50, "p50": 50, "p95": 95, "p99": 99})


def test_shares_of_time_and_what_is_outside_the_forward_pass() -> None:
    figures = Figures.of(SPEC, PLAIN)
    assert figures.shares == pytest.approx({"forward": 0.05, "propose": 0.01, "rest": 0.94})
    assert figures.outside_ms == pytest.approx(1e3 * 9.5 / 4)


@pytest.mark.parametrize(
    "wrong",
    [
        [reply("a", 11, 1.0, 4.0, first=8), reply("b", 5, 1.0, 1.0, category="code")],
        [reply("a", 10, 1.0, 4.0), reply("b", 5, 1.0, 1.0, category="code")],
        [None, reply("b", 5, 1.0, 1.0, category="code")],
    ],
)
def test_a_text_that_differs_or_is_missing_in_any_repeat_is_named(wrong: list[Reply | None]) -> None:
    plain = [reply("a", 11, 1.0, 10.0), reply("b", 5, 1.0, 2.0, category="code")]
    figures = Figures.of(run("suffix", plain, wrong), run("plain", plain, plain))
    assert figures.differing == ["a"]
    assert not figures.overall.identical and figures.by_category["code"].identical


@dataclass
class FakeTarget:
    exactness: str = "bitwise"
    name: str = "A model"
    machine: dict[str, object] = field(
        default_factory=lambda: {"cpu": "A CPU", "threads": 2, "runtime": "r 1"}
    )
    options: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(
            target="embedded", used_weights="int8", used_activations="int8"
        )
    )
    checkpoint: SimpleNamespace = field(
        default_factory=lambda: SimpleNamespace(config=SimpleNamespace(name="A model"))
    )


def result(spec: Run = SPEC) -> Result:
    speculation = SimpleNamespace(draft_length="auto", verification="coupled")
    llm = cast(LLM, SimpleNamespace(target=FakeTarget(), speculation=speculation))
    prompt = Prompt(id="a", category="chat", turns=("x",))
    return Result(
        llm=llm,
        params=SamplingParams(),
        options=BenchOptions(),
        prompts=[prompt],
        plain=PLAIN,
        numeric=run("plain", PLAIN.repeats[0][0].replies + PLAIN.repeats[0][1].replies),
        runs=[spec],
        skipped=["long"],
    )


def test_the_table_has_a_row_a_task_the_baselines_and_the_conditions() -> None:
    text = table(result())
    lines = text.split("\n")
    assert lines[1].split()[:3] == ["task", "prompts", "tokens"]
    overall = next(line for line in lines if line.startswith("overall"))
    assert overall.split() == ["overall", "2", "16", "1.1", "1.6", "1.71", "1.40", "150.0%", "4.00", "yes"]
    for words in (
        "plain, bitwise",
        "plain, numeric",
        "weights int8",
        "activations int8",
        "A CPU",
        "1 prompts do not fit",
    ):
        assert words in text
    assert "NOT IDENTICAL" not in text
    wrong = run("suffix", [reply("a", 11, 1.0, 4.0, first=8), reply("b", 5, 1.0, 1.0, category="code")])
    assert "NOT IDENTICAL with the plain run: a" in table(result(wrong))


def test_the_json_object_has_the_fields_of_the_design() -> None:
    found = json.loads(json.dumps(as_dict(result()), allow_nan=False))
    assert {"target", "weights", "activations", "machine", "runs", "plain", "plain_numeric"} <= set(found)
    fields = (
        "draft exactness verification temperature concurrency prompts output_tokens "
        "output_tokens_per_second requests_per_second ttft_ms itl_ms rounds drafted_rounds draft_tokens "
        "accepted_tokens acceptance_rate mean_acceptance_length peak_memory_bytes speedup_decode speedup_e2e "
        "identical identical_prompts by_category accepted_per_position by_source"
    )
    only = found["runs"][0]
    assert set(fields.split()) <= set(only)
    assert (only["prompts"], only["identical_prompts"], only["identical"]) == (2, 2, True)
    assert set(only["by_category"]) == {"chat", "code"} and set(only["itl_ms"]) == {
        "mean",
        "p50",
        "p95",
        "p99",
    }


def test_options_refuse_what_cannot_be_measured() -> None:
    for wrong in ({"concurrency": 0}, {"repeat": 0}):
        with pytest.raises(PilotfishError, match=next(iter(wrong))):
            BenchOptions(**wrong)  # type: ignore[arg-type]


def test_durations_and_a_bar_in_a_log() -> None:
    assert [duration(s) for s in (12.2, 200, 3900)] == ["12 s", "3 min 20 s", "1 h 5 min"]
    log = StringIO()
    bar = Bar(log)
    bar.show(0.5, "a")  # a log hears every few seconds only
    bar.close()
    assert log.getvalue() == ""


def test_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "steps.png"
    draw(path, {"bitwise": {2: 0.015, 8: 0.02}, "numeric": {1: 0.013, 8: 0.02}}, title="t")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(PilotfishError, match="cannot write the picture"):
        draw(tmp_path / "no" / "steps.png", {"bitwise": {2: 0.015}}, title="t")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(PilotfishError, match=r"pip install 'pilotfish\[dev\]'"):
        draw(path, {"bitwise": {2: 0.015}}, title="t")

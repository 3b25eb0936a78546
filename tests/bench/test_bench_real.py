"""Small benchmarks on the embedded model: the same texts on all sides, and the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pilotfish.bench.figures import Figures
from pilotfish.bench.picture import measure
from pilotfish.bench.profile import profile
from pilotfish.bench.run import Bench, BenchOptions
from pilotfish.bench.serve import Conversation, serve
from pilotfish.bench.workload import Prompt
from pilotfish.cli import main
from pilotfish.errors import BadRequest
from pilotfish.llm import LLM
from pilotfish.model.runner import NUMERIC
from pilotfish.sampling import SamplingParams

TWO_TURNS = Prompt(id="two", category="chat", turns=("Say one two one two one two.", "Once more, please."))
RAW = Prompt(id="raw", category="list", turns=("1 2 3 1 2 3 1 2 3 1 2",), raw=True)
SHORT = SamplingParams(max_tokens=8, ignore_eos=True)


def test_all_sides_write_the_same_and_turns_carry_the_models_own_replies(embedded_llm: LLM) -> None:
    llm = embedded_llm.with_speculation(draft_length=5)
    options = BenchOptions(drafts=("ngram", "replay:0.7"))
    result = Bench(llm, options).run([TWO_TURNS, RAW], SHORT)
    assert (result.numeric is not None) == llm.target.form.bitwise
    for run in result.runs:
        figures = Figures.of(run, result.plain)
        assert figures.overall.identical or not llm.target.form.bitwise
        assert (figures.prompts, figures.replies, figures.overall.tokens) == (2, 3, 24)
        assert set(figures.by_category) == {"chat", "list"}
        figures.overall.stats.check()
    assert Figures.of(result.runs[1], result.plain).overall.stats.accepted_tokens > 0
    first, second, _ = (reply for group in result.plain.repeats[0] for reply in group.replies)
    conversation = Conversation(TWO_TURNS, llm)
    assert first.prompt == conversation.ids()
    conversation.answer(llm.target.tokenizer.decode(list(first.token_ids)))
    assert second.prompt == conversation.ids()


def test_a_closed_loop_writes_the_same_texts_at_any_concurrency(embedded_llm: LLM) -> None:
    llm = embedded_llm.with_speculation(draft="ngram")
    prompts = [TWO_TURNS, RAW, replace(RAW, id="again")]
    found = []
    for concurrency in (1, 3):
        group = serve(llm, prompts, replace(SHORT, temperature=0.9), concurrency=concurrency)
        found.append({(reply.prompt_id, reply.turn): reply.token_ids for reply in group.replies})
    assert found[0] == found[1] and len(found[0]) == 4
    assert found[0]["raw", 0] != found[0]["again", 0]  # the seed depends on the id
    llm.engine.check()


def test_what_does_not_fit_is_skipped_and_counted_never_cut(embedded_llm: LLM) -> None:
    context = embedded_llm.target.runner.context
    long = Prompt(id="long", category="chat", turns=("word " * context,))
    later = Prompt(id="later", category="chat", turns=("1 2 1 2", "word " * context), raw=True)
    bench = Bench(embedded_llm, BenchOptions(drafts=("none",)))
    result = bench.run([long, later], replace(SHORT, max_tokens=2))
    assert result.skipped == ["long"]
    assert Figures.of(result.plain, result.plain).skipped_turns == 1
    with pytest.raises(BadRequest, match="none of 1 prompts fits"):
        bench.run([long], SHORT)
    with pytest.raises(BadRequest, match="n = 2"):
        bench.run([RAW], replace(SHORT, n=2))


def test_step_times_are_measured_by_form(embedded_llm: LLM) -> None:
    target = embedded_llm.target
    curves = measure(target.runner, {"bitwise": target.form, "numeric": NUMERIC}, rows=range(1, 4), repeats=1)
    assert [sorted(curve) for curve in curves.values()] == [[1, 2, 3]] * 2
    assert all(seconds > 0 for curve in curves.values() for seconds in curve.values())


def test_the_command_prints_one_json_object(
    embedded_llm: LLM, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"id": 1, "category": "list", "turns": ["1 2 3 1 2 3 1 2"], "raw": true}\n')
    words = [
        "bench",
        "--prompts",
        str(path),
        "--max-new-tokens",
        "6",
        "--draft",
        "ngram",
        "--draft",
        "none",
        "--json",
    ]
    assert main(words, loaded=embedded_llm.target) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["draft"] for run in found["runs"]] == ["ngram", "none"]
    assert found["runs"][0]["output_tokens"] == 6


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["bench", "--draft", "ngarm"], "did you mean 'ngram'"),
        (["bench", "--concurrency", "0"], "concurrency must be at least 1"),
        (["bench", "--limit", "0"], "limit must be at least 1"),
        (["bench", "--prompts", "/none/such"], "cannot read prompts from /none/such"),
        (["bench", "--measure"], "--measure belongs to --step-times"),
        (["bench", "--steps", "--perplexity"], "--perplexity and --steps cannot be given together; drop one"),
        (["bench", "--steps", "--step-times", "a.png"], "--step-times and --steps cannot be given together"),
        (["bench", "--profile=2"], "--profile takes no value, found '2'"),
        (["bench", "--n", "2"], "unknown flag '--n'"),
        (["audit", "--draft", "none"], "nothing to audit"),
        (["audit", "--draft", "suffix+"], "--draft: unknown draft"),
        (["audit", "--limit", "0"], "--limit must be at least 1"),
        (["audit", "--max-new-tokens", "1"], "at least 2 new tokens"),
        (["audit", "--quick", "--full"], "--full and --quick cannot be given together; drop one"),
    ],
)
def test_a_wrong_command_line_fails_before_the_model_is_loaded(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    complaint = capsys.readouterr().err
    assert says in complaint and complaint.count("\n") == 1


def test_the_profile_accounts_for_the_whole_pass(embedded_llm: LLM) -> None:
    """Every kind of work is counted, and the parts add up to the pass."""
    for shares in profile(embedded_llm.target):
        parts = (shares.matmul, shares.attention, shares.other, shares.outside)
        assert min(parts[:3]) > 0
        assert sum(parts) >= 0.99 * shares.total

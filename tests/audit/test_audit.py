"""Audits of the embedded model, honest and with planted faults."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pilotfish.engine.engine as engine_module
import pilotfish.llm as llm_module
from pilotfish.audit.cells import (
    BATCH,
    CHUNKS,
    DRAFTS,
    SAMPLINGS,
    SETTINGS,
    Case,
    all_cells,
    chosen,
    echo,
    few_cells,
    requests,
    with_raw_twins,
)
from pilotfish.audit.run import Audit, AuditOptions, Cell, worst
from pilotfish.bench.workload import Prompt, read_prompts
from pilotfish.cli import main
from pilotfish.draft import Draft, Verdict
from pilotfish.errors import BadRequest
from pilotfish.llm import LLM
from pilotfish.model.runner import Form
from pilotfish.propose import Nothing, Proposer
from pilotfish.verify import Continuation, verify

OFTEN_WRONG = Case(draft="replay:0.3", sampling="greedy", setting="alone")
GREEDY_ALONE = Case(draft="replay:0.7", sampling="greedy", setting="alone")
TABLE = "a 1 7\nb 2 7\nc 3 7\n" * 4
PROMPTS = [
    Prompt(id="table", category="x", turns=(TABLE,), raw=True),
    Prompt(id="chat", category="y", turns=("Say: red green blue red green blue.",)),
]


def only(cells: Iterator[Cell]) -> Cell:
    (cell,) = list(cells)
    return cell


@pytest.fixture
def llm(embedded_llm: LLM) -> LLM:
    return embedded_llm.with_speculation(draft_length=5)


@pytest.fixture
def prompt_file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    rows = [{"id": p.id, "category": p.category, "turns": p.turns, "raw": p.raw} for p in PROMPTS]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


# What is audited.


def test_all_cells_and_the_few_that_meet_each_pair() -> None:
    assert len(all_cells(DRAFTS)) == 5 * 3 * 3
    few = few_cells(DRAFTS)
    assert len(few) == 15
    for names in ("draft", "sampling"):
        pairs = {(getattr(case, names), case.setting) for case in few}
        assert len(pairs) == len({getattr(case, names) for case in few}) * len(SETTINGS)


def test_a_batch_mixes_prompts_lengths_and_parameters() -> None:
    case = replace(GREEDY_ALONE, setting=BATCH)
    (group,) = requests(case, subjects=range(2), prompts=8, tokens=64, samplings=tuple(SAMPLINGS))
    assert [wanted.prompt for wanted in group] == [0, 1, 2, 3, 4, 5]
    assert len({wanted.tokens for wanted in group}) >= 4 and {wanted.sampling for wanted in group} == set(
        SAMPLINGS
    )
    groups = requests(case, subjects=range(8), prompts=8, tokens=64, samplings=("greedy",))
    assert {wanted.prompt for group in groups for wanted in group} == set(range(8))
    assert all(len({wanted.prompt for wanted in group}) == 6 for group in groups)


def test_forty_prompts_come_from_twenty_four_and_the_lead_is_kept() -> None:
    built_in = read_prompts(None, limit=3)
    prompts = with_raw_twins(chosen(built_in, ("code-2",)), 40)
    assert len(prompts) == 40 and len({prompt.id for prompt in prompts}) == 40
    assert prompts[0].id == "code-2" and len({prompt.category for prompt in prompts[1:9]}) == 8
    assert echo(prompts[0]).raw and echo(prompts[0]).id != prompts[0].id


def test_nonsense_is_refused(llm: LLM) -> None:
    with pytest.raises(BadRequest, match="at least 2 new tokens"):
        AuditOptions(max_tokens=1)
    with pytest.raises(BadRequest, match="none of 1 prompts fits"):
        Audit(llm, PROMPTS[:1], AuditOptions(max_tokens=10**6))


# Honest.


def test_every_setting_gives_the_plain_tokens(llm: LLM) -> None:
    audit = Audit(llm, PROMPTS, AuditOptions(max_tokens=12))
    cases = [case for case in few_cells(DRAFTS) if case.draft == "replay:0.7"]
    cases.append(Case(draft="ngram", sampling="greedy", setting=CHUNKS))
    for cell in audit.run(cases):
        assert cell.verdict in (("same",) if llm.target.form.bitwise else ("same", "tie")), cell.notes
        assert cell.tokens_compared >= 18 and cell.accepted > 0 and cell.corrected > 0


def test_the_command_reports_and_succeeds(
    embedded_llm: LLM, prompt_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["audit", "--quick", "--limit", "1", "--draft", "replay:0.4", "--max-new-tokens", "10"]
    assert main([*words, "--prompts", str(prompt_file), "--json"], loaded=embedded_llm.target) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] in ("same", "tie") and len(found["cells"]) == 3
    fields = "draft sampling setting verification tokens_compared accepted corrected differing verdict"
    assert all(set(fields.split()) <= set(cell) for cell in found["cells"])
    assert {cell["verification"] for cell in found["cells"]} == {"coupled"}


def test_other_verifications_are_audited_greedily_only(
    embedded_llm: LLM, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "audit",
        "--quick",
        "--draft",
        "replay:0.4",
        "--max-new-tokens",
        "8",
        "--verification",
        "rejection",
    ]
    assert main(words, loaded=embedded_llm.target) == 0
    captured = capsys.readouterr()
    assert "only greedy is audited" in captured.err
    assert "1 cells" in captured.out and "rejection verification" in captured.out


def test_a_cell_in_which_nothing_happened_takes_the_spare_prompts(llm: LLM) -> None:
    case = Case(draft="ngram", sampling="greedy", setting="alone")
    dull = Prompt(id="dull", category="z", turns=("Q",), raw=True)
    audit = Audit(llm, [dull, PROMPTS[0]], AuditOptions(max_tokens=2, subjects=1))
    cell = only(audit.run([case]))
    assert cell.tokens_compared == 4 and cell.differing == 0


# Planted faults.


def gullible(kind: str, draft: Draft, rows: np.ndarray, continuation: Continuation) -> Verdict:
    """Accepts the first draft token unseen."""
    if not len(draft):
        return verify(kind, draft, rows, continuation)
    if continuation.append(draft.tokens[0], rows[0]):
        return Verdict((), draft.tokens[0])
    end = verify(kind, Draft(), rows[1:], continuation)
    return Verdict((0,), end.token)


def test_a_verifier_that_accepts_unseen_is_a_bug(
    llm: LLM, prompt_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine_module, "verify", gullible)
    cell = only(Audit(llm, PROMPTS, AuditOptions(max_tokens=12)).run([OFTEN_WRONG]))
    assert cell.verdict == "bug" and cell.differing > 0
    assert "output token" in cell.notes[0]
    words = ["audit", "--quick", "--limit", "1", "--draft", "replay:0.3", "--max-new-tokens", "10"]
    assert main([*words, "--prompts", str(prompt_file), "--json"], loaded=llm.target) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "bug"


def test_a_proposer_that_proposes_nothing_is_idle(
    llm: LLM, prompt_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(spec: str, **_: object) -> Proposer:
        return Nothing()

    monkeypatch.setattr(llm_module, "build", nothing)
    cell = only(Audit(llm, PROMPTS, AuditOptions(max_tokens=6)).run([GREEDY_ALONE]))
    assert (cell.verdict, cell.differing, cell.accepted, cell.corrected) == ("idle", 0, 0, 0)
    words = ["audit", "--quick", "--limit", "1", "--draft", "suffix", "--max-new-tokens", "4"]
    assert main([*words, "--prompts", str(prompt_file)], loaded=llm.target) == 1
    assert "idle" in capsys.readouterr().out


def test_a_form_that_is_not_bitwise_is_not_called_the_same_unless_it_is(llm: LLM) -> None:
    claimed = Form(min_tokens=1, max_rows=512, bitwise=True)
    liar = LLM(replace(llm.target, form=claimed), draft_length=5)
    cell = only(Audit(liar, PROMPTS, AuditOptions(max_tokens=16)).run([GREEDY_ALONE]))
    assert cell.verdict == ("bug" if cell.differing else "same")


@pytest.mark.parametrize("noise", [0.0, 1e9])
def test_numeric_differences_are_ties_within_the_noise_and_bugs_beyond(
    llm: LLM, monkeypatch: pytest.MonkeyPatch, noise: float
) -> None:
    numeric = replace(
        llm.target,
        form=Form(min_tokens=1, max_rows=64, bitwise=False),
        proof=replace(llm.target.proof, noise=noise),
    )
    audit = Audit(LLM(numeric, draft_length=5), PROMPTS, AuditOptions(max_tokens=12))
    monkeypatch.setattr(engine_module, "verify", gullible)
    cell = only(audit.run([OFTEN_WRONG]))
    assert cell.differing > 0
    assert cell.verdict == ("tie" if noise else "bug")
    audit._plain.engine.check()  # judging a tie gives back its blocks


def test_the_worst_cell_is_the_verdict() -> None:
    def cell(verdict: str) -> Cell:
        return Cell(
            case=GREEDY_ALONE, tokens_compared=1, accepted=1, corrected=1, differing=0, verdict=verdict
        )

    assert worst([cell("same"), cell("tie")]) == "tie"
    assert worst([cell("idle"), cell("bug"), cell("same")]) == "bug"
    assert worst([]) == "idle"

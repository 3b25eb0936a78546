"""Plain decoding against every proposer: are the tokens the same, and was anything at stake?

    audit = Audit(llm, prompts, AuditOptions(max_tokens=48))
    for cell in audit.run(all_cells(DRAFTS)): print(cell.verdict)

The reference is the plain run, each request alone, prompts in whole chunks. A cell is "same", "tie"
(numeric only: noise explains it), "bug", or "idle": no draft token was accepted or none corrected,
so that nothing was tested, which is a failure too; before it is given up, a cell takes the spare prompts.
Knows nothing of terminals.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pilotfish.audit.cells import CHUNKS, ODD_CHUNK, SAMPLINGS, Case, Wanted, requests
from pilotfish.audit.compare import differing, first_difference, is_tie
from pilotfish.bench.serve import fits
from pilotfish.bench.workload import Prompt
from pilotfish.engine.request import Request
from pilotfish.errors import BadRequest, PilotfishError
from pilotfish.llm import LLM, Completion
from pilotfish.sampling import SamplingParams

Show = Callable[[float, str], None]
Key = tuple[int, str]  # the place of a prompt, and how it is sampled
SEVERITY = ("same", "tie", "idle", "bug")


def _silent(_share: float, _note: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class AuditOptions:
    """max_tokens  new tokens of each request (in a batch some get fewer)
    subjects    how many of the prompts are audited; the others only fill up batches. 0: all
    samplings   which of SAMPLINGS
    """

    max_tokens: int = 64
    subjects: int = 0
    samplings: tuple[str, ...] = tuple(SAMPLINGS)

    def __post_init__(self) -> None:
        if self.max_tokens < 2 or self.subjects < 0:
            raise BadRequest(
                f"an audit needs at least 2 new tokens a request (found {self.max_tokens}) "
                f"and 0 or more prompts ({self.subjects})"
            )


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What came of one case. `notes` say where texts part and why."""

    case: Case
    tokens_compared: int
    accepted: int
    corrected: int
    differing: int
    verdict: str
    notes: tuple[str, ...] = ()


@dataclass
class _Counts:
    tokens: int = 0
    differing: int = 0
    unexplained: int = 0
    notes: list[str] = field(default_factory=list)


class Audit:
    """Audits drafts over one loaded model. `run` as often as you like: references are kept."""

    def __init__(self, llm: LLM, prompts: Sequence[Prompt], options: AuditOptions) -> None:
        self._llm = llm
        self._options = options
        ids = [(prompt, llm.prompt_ids(prompt.turns[0], raw=prompt.raw)) for prompt in prompts]
        room = SamplingParams(max_tokens=options.max_tokens)
        self._prompts = [(prompt, tokens) for prompt, tokens in ids if fits(llm, tokens, room)]
        self.skipped = [prompt.id for prompt, tokens in ids if not fits(llm, tokens, room)]
        if not self._prompts:
            raise BadRequest(
                f"none of {len(prompts)} prompts fits the context of {llm.target.runner.context} tokens with "
                f"{options.max_tokens} new ones; ask for fewer, or give shorter prompts"
            )
        self.subjects = min(options.subjects or len(self._prompts), len(self._prompts))
        self._plain = llm.with_speculation(draft="none", prefill_chunk=0)
        self._references: dict[Key, list[int]] = {}

    def run(self, cases: Sequence[Case], show: Show = _silent) -> Iterator[Cell]:
        """The cells, one after the other. `show` is told the share of the tokens that are written."""
        plans = [(case, self._requests(case, range(self.subjects))) for case in cases]
        lacking = self._lacking([wanted for _, groups in plans for group in groups for wanted in group])
        total = sum(wanted.tokens for wanted in lacking)
        total += sum(wanted.tokens for _, groups in plans for group in groups for wanted in group)
        done = 0
        for wanted in lacking:
            show(done / total, f"plain reference, {self._prompts[wanted.prompt][0].id}, {wanted.sampling}")
            self._refer(wanted)
            done += wanted.tokens
        for case, groups in plans:
            counts, llm = _Counts(), self._speculative(case)
            for group in groups:
                show(done / total, _named(case))
                self._compare(llm, group, counts)
                done += sum(wanted.tokens for wanted in group)
            for place in range(self.subjects, len(self._prompts)):
                if not _idle(llm):
                    break
                show(done / total, f"{_named(case)}, one more prompt: nothing was tested yet")
                for group in self._requests(case, [place]):
                    self._compare(llm, group, counts)
            llm.engine.check()
            yield self._cell(case, llm, counts)

    def _requests(self, case: Case, subjects: Sequence[int]) -> list[list[Wanted]]:
        return requests(
            case,
            subjects=subjects,
            prompts=len(self._prompts),
            tokens=self._options.max_tokens,
            samplings=self._options.samplings,
        )

    def _lacking(self, group: Sequence[Wanted]) -> list[Wanted]:
        """The references still to be made: one of each prompt and sampling, the longest that is wanted."""
        longest: dict[Key, Wanted] = {}
        for wanted in sorted(group, key=lambda wanted: wanted.tokens):
            longest[wanted.prompt, wanted.sampling] = wanted
        return [want for key, want in longest.items() if len(self._references.get(key, ())) < want.tokens]

    def _request(self, wanted: Wanted) -> Request:
        prompt, ids = self._prompts[wanted.prompt]
        params = replace(SAMPLINGS[wanted.sampling], max_tokens=wanted.tokens)
        return Request(prompt=ids, params=params, seed=zlib.crc32(prompt.id.encode()))

    def _refer(self, wanted: Wanted) -> None:
        """The plain output, alone. A shorter request's is its beginning: a draw knows no length."""
        done = self._plain.run([self._request(wanted)])[0]
        error = done.choices[0].error
        if error is not None:
            raise PilotfishError(
                f"prompt {self._prompts[wanted.prompt][0].id!r} failed in the plain run: {error}"
            )
        self._references[wanted.prompt, wanted.sampling] = done.token_ids

    def _speculative(self, case: Case) -> LLM:
        """An engine and a proposer that have seen nothing."""
        return self._llm.with_speculation(
            draft=case.draft, prefill_chunk=ODD_CHUNK if case.setting == CHUNKS else 0
        )

    def _compare(self, llm: LLM, group: list[Wanted], counts: _Counts) -> None:
        """Run a group together; then compare, since a tie is judged with the runtime to itself."""
        for wanted in self._lacking(group):
            self._refer(wanted)
        asked = [self._request(wanted) for wanted in group]
        references = [self._references[w.prompt, w.sampling][: w.tokens] for w in group]
        for request, reference in zip(asked, references, strict=True):
            llm.record(request.prompt, reference)
        for request, reference, done in zip(asked, references, llm.run(asked), strict=True):
            counts.tokens += len(reference)
            self._judge(request, reference, done, counts)

    def _judge(self, request: Request, reference: list[int], done: Completion, counts: _Counts) -> None:
        at, error = first_difference(reference, done.token_ids), done.choices[0].error
        if at is None and error is None:
            return
        counts.differing += differing(reference, done.token_ids)
        here = f"a prompt of {len(request.prompt)} tokens, seed {request.seed}"
        if error is not None or at is None or at >= min(len(reference), len(done.token_ids)):
            counts.unexplained += 1
            counts.notes.append(
                f"{here}: {len(done.token_ids)} tokens of {len(reference)}; {error or 'no error was named'}"
            )
            return
        found = done.token_ids[at]
        tie = not self._llm.target.form.bitwise and is_tie(
            self._llm.target, request, reference, at=at, found=found
        )
        counts.unexplained += not tie
        verdict = "within the measured noise" if tie else "not explained by noise"
        counts.notes.append(f"{here}: output token {at} is {found}, not {reference[at]}; {verdict}")

    def _cell(self, case: Case, llm: LLM, counts: _Counts) -> Cell:
        stats = llm.engine.stats
        if counts.unexplained:
            verdict = "bug"
        elif _idle(llm):
            verdict = "idle"
        else:
            verdict = "tie" if counts.differing else "same"
        return Cell(
            case=case,
            tokens_compared=counts.tokens,
            accepted=stats.accepted_tokens,
            corrected=stats.corrected_rounds,
            differing=counts.differing,
            verdict=verdict,
            notes=tuple(counts.notes),
        )


def _idle(llm: LLM) -> bool:
    """True where nothing was at stake so far."""
    return not (llm.engine.stats.accepted_tokens and llm.engine.stats.corrected_rounds)


def _named(case: Case) -> str:
    return f"{case.draft}, {case.sampling}, {case.setting}"


def worst(cells: Sequence[Cell]) -> str:
    """The verdict of all: that of the worst cell."""
    return max((cell.verdict for cell in cells), key=SEVERITY.index, default="idle")

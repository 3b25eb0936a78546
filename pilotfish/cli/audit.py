"""`pilotfish audit`: prove on this machine that speculation changes no token.

    pilotfish audit --quick                    # a third of the cells, short texts
    pilotfish audit                            # all cells, 6 prompts
    pilotfish audit --full --json > audit.json # all cells, 40 prompts
    pilotfish audit --draft suffix --prompts mine.jsonl --limit 10

Exit status 1 where a cell is a bug, or idle: nothing accepted or nothing corrected, so that it proves
nothing. Knows nothing of how anything is compared.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from dataclasses import dataclass

from pilotfish.audit.cells import (
    BATCH_SIZE,
    DRAFTS,
    FULL_PROMPTS,
    SAMPLINGS,
    Case,
    all_cells,
    chosen,
    echo,
    few_cells,
    with_raw_twins,
)
from pilotfish.audit.report import HEAD, as_dict, line, summary
from pilotfish.audit.run import Audit, AuditOptions, Cell, worst
from pilotfish.bench.progress import Bar
from pilotfish.bench.workload import Prompt, read_prompts
from pilotfish.cli.bench import add_speculation_flags_with_drafts, add_work_flags, check_drafts
from pilotfish.cli.flags import (
    BadFlag,
    Parser,
    add_model_flags,
    llm,
    speculation_options,
)
from pilotfish.cli.report import json_line
from pilotfish.cli.terminal import Progress
from pilotfish.errors import BadRequest
from pilotfish.verify import Verification

_PROMPTS = 6
_DRAFT_LENGTH = 3  # fixed: what is audited must not depend on how fast this machine is
_FIRST = ("json_extraction-3", "code_editing-2")  # a table to echo, and texts of which much is copied
_QUICK_TOKENS = 32
_LONG = 4000  # characters of a prompt


def parser() -> Parser:
    """The flags of `audit`."""
    made = Parser("audit", "prove on this machine that speculation changes no token")
    add_work_flags(
        made,
        limit=f"prompts in all, categories in turn (default {_PROMPTS}), and an echo of the first",
    )
    work = made.add_argument_group("auditing")
    size = work.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="a third of the cells, 1 prompt, short texts")
    size.add_argument("--full", action="store_true", help=f"all cells, {FULL_PROMPTS} prompts")
    work.add_argument(
        "--max-new-tokens", type=int, metavar="N", help="tokens of each request (default 64; quick 32)"
    )
    work.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else")
    add_speculation_flags_with_drafts(made, f"what to audit; may be repeated (default {', '.join(DRAFTS)})")
    add_model_flags(made)
    return made


@dataclass(frozen=True)
class _Plan:
    prompts: list[Prompt]
    options: AuditOptions
    cases: list[Case]


def _prompts(args: Namespace) -> list[Prompt]:
    """The named file's prompts, or the built-in ones with a single long text: 45 cells read it again."""
    prompts = read_prompts(args.prompts)
    if args.prompts is not None:
        return prompts
    long = [prompt for prompt in prompts if len(prompt.turns[0]) > _LONG]
    return [prompt for prompt in prompts if prompt not in long[1:]]


def _plan(args: Namespace, verification: str) -> _Plan:
    """What to audit. Raises BadRequest."""
    if args.limit is not None and args.limit < 1:
        raise BadRequest(f"--limit must be at least 1 prompt, found {args.limit}")
    drafts = tuple(dict.fromkeys(args.drafts or DRAFTS))
    check_drafts(drafts)
    if "none" in drafts:
        raise BadRequest("--draft none proposes nothing, so that there is nothing to audit; name a proposer")
    samplings = tuple(SAMPLINGS)
    if verification != Verification.COUPLED:
        samplings = tuple(name for name, params in SAMPLINGS.items() if params.temperature == 0)
    prompts = chosen(_prompts(args), _FIRST)
    subjects = args.limit or (1 if args.quick else FULL_PROMPTS if args.full else _PROMPTS)
    prompts = with_raw_twins(prompts, max(subjects, BATCH_SIZE))
    if args.quick:  # few tokens: echoes in the batches too, so that every cell accepts something
        prompts = [twin for prompt in prompts for twin in (echo(prompt), prompt)]
    else:
        prompts = [echo(prompts[0]), *prompts]
    subjects += 1
    tokens = args.max_new_tokens if args.max_new_tokens is not None else _QUICK_TOKENS if args.quick else 64
    cases = few_cells(drafts, samplings) if args.quick else all_cells(drafts, samplings)
    options = AuditOptions(max_tokens=tokens, subjects=subjects, samplings=samplings)
    return _Plan(prompts[: max(subjects, BATCH_SIZE)], options, cases)


def run(args: Namespace) -> int:
    """Audit and report."""
    args.draft_length = getattr(args, "draft_length", _DRAFT_LENGTH)
    verification = speculation_options(args).verification
    try:
        plan = _plan(args, verification)
    except BadRequest as problem:
        raise BadFlag(str(problem)) from None
    with Progress(sys.stderr) as progress:
        if verification != Verification.COUPLED:
            progress(
                f"warning: {verification} promises the same law, not the same text: only greedy is audited"
            )
        model = llm(args, progress)
    audit = Audit(model, plan.prompts, plan.options)
    cells = _show(audit, plan.cases, quiet=args.json)
    if args.json:
        print(json_line(as_dict(model, cells, skipped=audit.skipped)))
    else:
        if audit.skipped:
            names = ", ".join(audit.skipped)
            print(f"{len(audit.skipped)} prompts do not fit the context and were skipped: {names}")
        print(summary(model, cells))
    return int(worst(cells) in ("bug", "idle"))


def _show(audit: Audit, cases: list[Case], *, quiet: bool) -> list[Cell]:
    """Run the cells, each shown when it is done."""
    bar, cells = Bar(sys.stderr), list[Cell]()
    if not quiet:
        print(HEAD, flush=True)
    try:
        for cell in audit.run(cases, bar.show):
            cells.append(cell)
            if not quiet:
                bar.clear()
                print(line(cell), flush=True)
    finally:
        bar.close()
    return cells

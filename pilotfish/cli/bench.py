"""`pilotfish bench`: plain and speculative decoding of the same prompts, interleaved, by task.

    pilotfish bench --limit 1 --draft suffix --draft recycle
    pilotfish bench --prompts spec_bench.jsonl --repeat 3 --json > result.json
    pilotfish bench --step-times steps.png --measure
    pilotfish bench --steps
    pilotfish bench --profile
    pilotfish bench --perplexity

Exit status 1 where a run that is certain to be the same (bitwise, coupled) was not. Knows nothing of
how anything is measured.
"""

from __future__ import annotations

import sys
from argparse import Namespace, _MutuallyExclusiveGroup
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from pilotfish.bench.figures import differing_prompts
from pilotfish.bench.perplexity import compare, perplexity_table, read_text, text_name, text_tokens
from pilotfish.bench.picture import Curve, draw, measure
from pilotfish.bench.profile import profile, profile_table
from pilotfish.bench.progress import Bar
from pilotfish.bench.report import as_dict, table
from pilotfish.bench.run import Bench, BenchOptions, Result
from pilotfish.bench.steps import step_grid, steps_table
from pilotfish.bench.workload import read_prompts
from pilotfish.cli.flags import (
    BadFlag,
    Parser,
    add_model_flags,
    add_sampling_flags,
    add_speculation_flags,
    llm,
    sampling_params,
    speculation_options,
)
from pilotfish.cli.report import json_line
from pilotfish.cli.terminal import Progress
from pilotfish.errors import BadRequest
from pilotfish.llm import LLM
from pilotfish.model.bandwidth import bandwidth
from pilotfish.model.runner import NUMERIC
from pilotfish.propose.spec import build

_BUILT_IN = ""  # --perplexity without a file

# One choice without logprobs: what a benchmark measures. --n and --logprobs are refused by name.
_SAMPLING = (
    "max_tokens", "min_tokens", "temperature", "top_k", "top_p", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "logit_bias", "stop", "ignore_eos", "seed",
)  # fmt: skip


def parser() -> Parser:
    """The flags of `bench`."""
    made = Parser("bench", "measure speed on a set of prompts, with the plain run beside it")
    add_work_flags(made, limit="prompts per category")
    work = made.add_argument_group("measuring")
    work.add_argument(
        "--concurrency", type=int, default=1, metavar="N", help="requests in flight (default 1)"
    )
    work.add_argument(
        "--repeat", type=int, default=1, metavar="N", help="repeats, of which medians are taken (default 1)"
    )
    work.add_argument(
        "--measure", action="store_true", help="with --step-times: measure afresh, bitwise and numeric"
    )
    _add_reports(work.add_mutually_exclusive_group())
    work.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else")
    add_speculation_flags_with_drafts(made, "who guesses; may be repeated, one run each (default auto)")
    add_sampling_flags(made, _SAMPLING)
    add_model_flags(made)
    return made


def _add_reports(work: _MutuallyExclusiveGroup) -> None:
    """What may be shown in place of the benchmark, one of them at a time."""
    work.add_argument(
        "--step-times", type=Path, metavar="PNG", help="draw the step time by rows instead, as a picture"
    )
    work.add_argument(
        "--steps", action="store_true", help="show instead what a pass costs: by rows, sequences, context"
    )
    work.add_argument(
        "--profile", action="store_true", help="show instead where a pass goes: matmul, attention, the rest"
    )
    work.add_argument(
        "--perplexity", nargs="?", const=_BUILT_IN, metavar="FILE",
        help="show instead what each form of the weights costs in quality on a text; default: built in",
    )  # fmt: skip


def add_work_flags(made: Parser, *, limit: str) -> None:
    """--prompts --limit --first-turn, as `bench` and `audit` share them."""
    work = made.add_argument_group("prompts")
    work.add_argument(
        "--prompts", type=Path, metavar="FILE", help="JSONL with id, category, turns; default: built in"
    )
    work.add_argument("--limit", type=int, metavar="N", help=limit)
    if made.prog.endswith("bench"):
        work.add_argument("--first-turn", action="store_true", help="only the first turn of each prompt")


def add_speculation_flags_with_drafts(made: Parser, text: str) -> None:
    """As add_speculation_flags, but --draft may be repeated and fills `args.drafts`."""
    made.conflict_handler = "resolve"  # the second --draft takes the place of the first
    add_speculation_flags(made)
    group = made.add_argument_group("drafts")
    group.add_argument("--draft", dest="drafts", action="append", metavar="NAME", help=text)


def check_drafts(drafts: Sequence[str]) -> None:
    """Refuse a wrong name before a model is loaded. Raises BadFlag."""
    for draft in drafts:
        try:
            build(draft, record=lambda _: None)
        except BadRequest as problem:
            raise BadFlag(f"--draft: {problem}") from None


def run(args: Namespace) -> int:
    """Measure and report."""
    if args.measure and args.step_times is None:
        raise BadFlag("--measure belongs to --step-times; give both, or leave it out")
    _refuse_ignored(args)
    drafts = tuple(args.drafts or ("auto",))
    check_drafts(drafts)
    try:
        options = BenchOptions(drafts=drafts, concurrency=args.concurrency, repeat=args.repeat)
        prompts = read_prompts(args.prompts, limit=args.limit, first_turn=args.first_turn)
    except BadRequest as problem:
        raise BadFlag(str(problem)) from None
    params = sampling_params(args)
    speculation_options(args)
    text = None if args.perplexity is None else _read_text(args.perplexity)
    own_models = args.profile or text is not None  # measured beside the loaded one, which has no passes
    with Progress(sys.stderr) as progress:
        model = llm(args, progress, lasting=not own_models)
    if args.step_times is not None:
        return _step_times(model, args)
    if args.steps:
        return _steps(model, args)
    if args.profile:
        shares = profile(model.target)
        print(json_line({"passes": [asdict(one) for one in shares]}) if args.json else profile_table(shares))
        return 0
    if text is not None:
        return _perplexity(model, args, text)
    bar = Bar(sys.stderr)
    try:
        result = Bench(model, options).run(prompts, params, bar.show)
    finally:
        bar.close()
    print(json_line(as_dict(result)) if args.json else table(result))
    return _status(result)


def _refuse_ignored(args: Namespace) -> None:
    """The other reports run no prompts: what shapes a run of prompts is refused beside them."""
    reports = {
        "--steps": args.steps,
        "--step-times": args.step_times is not None,
        "--profile": args.profile,
        "--perplexity": args.perplexity is not None,
    }
    shaping = {
        "--prompts": args.prompts is not None,
        "--limit": args.limit is not None,
        "--first-turn": args.first_turn,
        "--concurrency": args.concurrency != 1,
        "--repeat": args.repeat != 1,
        "--draft": bool(args.drafts),
    }
    for report in (name for name, asked in reports.items() if asked):
        for flag in (name for name, given in shaping.items() if given):
            raise BadFlag(f"{flag} has no meaning with {report}, which runs no prompts; leave it out")


def _status(result: Result) -> int:
    """1 where a promise was broken. What is numeric may differ; what is not coupled keeps the law only."""
    promised = result.llm.target.form.bitwise and (
        result.llm.speculation.verification == "coupled" or result.params.temperature == 0
    )
    return int(promised and any(differing_prompts(run, result.plain) for run in result.runs))


def _read_text(name: str) -> str:
    try:
        return read_text(Path(name) if name else None)
    except BadRequest as problem:
        raise BadFlag(f"--perplexity: {problem}") from None


def _perplexity(model: LLM, args: Namespace, text: str) -> int:
    tokens = text_tokens(model.target, text)
    bar = Bar(sys.stderr)
    try:
        found = compare(model.target, tokens, bar.show)
    finally:
        bar.close()
    name = text_name(Path(args.perplexity) if args.perplexity else None)
    if args.json:
        conditions = {key: model.target.conditions[key] for key in ("target", "machine")}
        forms = [asdict(one) for one in found]
        print(json_line({**conditions, "text": name, "tokens": len(tokens), "forms": forms}))
    else:
        print(perplexity_table(found, name=name, tokens=len(tokens)))
    return 0


def _steps(model: LLM, args: Namespace) -> int:
    bar = Bar(sys.stderr)
    try:
        found = step_grid(model.target, bar.show)
    finally:
        bar.close()
    rate = bandwidth(model.target.threads)
    if args.json:
        fields = {"bandwidth_bytes_per_second": round(rate), "steps": [asdict(step) for step in found]}
        print(json_line({**model.target.conditions, **fields}))
    else:
        print(steps_table(found, bandwidth=rate))
    return 0


def _step_times(model: LLM, args: Namespace) -> int:
    target = model.target
    curves: Mapping[str, Curve] = {target.exactness: target.steps.table}
    if args.measure:
        forms = {"numeric": NUMERIC} | ({"bitwise": target.form} if target.form.bitwise else {})
        curves = measure(target.runner, forms)
    title = f"What draft tokens cost: {target.name}, {target.options.used_weights} weights"
    draw(args.step_times, curves, title=f"{title}\n{target.machine['cpu']}, {target.threads} threads")
    if args.json:
        milliseconds = {
            name: {str(rows): round(1e3 * seconds, 3) for rows, seconds in curve.items()}
            for name, curve in curves.items()
        }
        print(json_line({"picture": str(args.step_times), "milliseconds_by_rows": milliseconds}))
    else:
        print(f"{args.step_times}: step times of {', '.join(curves)}")
    return 0

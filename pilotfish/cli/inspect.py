"""`pilotfish inspect MODEL`: what a model is, whether it runs here, and what it would cost.

    pilotfish inspect model.gguf
    pilotfish inspect org/name --measure        # with the self-check and step times of this machine
    pilotfish inspect embedded --weights f32 --json

Without --measure nothing is loaded; what was not measured is estimated, and called so. Exit status 1
where pilotfish cannot run the model. Knows nothing of file formats.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from dataclasses import asdict, dataclass

from pilotfish.cli.flags import Parser, add_model_flags, model_options
from pilotfish.cli.inspect_table import table
from pilotfish.cli.report import json_line
from pilotfish.cli.terminal import Progress, shown_safely
from pilotfish.errors import BadModel
from pilotfish.model.bandwidth import bandwidth
from pilotfish.model.facts import Facts, read_facts
from pilotfish.model.load import ModelOptions, Target, known, load
from pilotfish.model.openvino.held import Held
from pilotfish.model.selfcheck import Proof
from pilotfish.model.steptimes import StepTimes

_COSTS = (
    "kv_bytes_per_token",
    "exactness",
    "proof",
    "step_ms_by_rows",
    "step_ms_estimate",
    "bandwidth_bytes_per_second",
    "memory_estimate",
)
_CACHE_BYTES = 4  # of a value: the runtime keeps keys and values as f32


def parser() -> Parser:
    """The flags of `inspect`."""
    made = Parser("inspect", "what a model is, whether it runs here, and what it would cost")
    made.add_argument(
        "target", nargs="?", metavar="MODEL", default=argparse.SUPPRESS,
        help="a .gguf file, a Hugging Face folder, a hub id, or embedded (the default)",
    )  # fmt: skip
    made.add_argument("--measure", action="store_true", help="load it: self-check and step times")
    made.add_argument("--json", action="store_true", help="one JSON object on stdout, nothing else")
    # A flag --for TARGET (does this draft fit that target?) belongs here, with a report of its own.
    add_model_flags(made, without=("target",))
    return made


@dataclass(frozen=True)
class Cost:
    """What running the model takes on this machine.

    proof, steps   what was measured, by now or earlier
    held           bytes of the weights, estimated
    rate           bytes a second of this machine's memory; None where steps are measured
    """

    proof: Proof | None
    steps: StepTimes | None
    held: Held
    rate: float | None

    @property
    def step(self) -> float | None:
        """Seconds of a pass over few rows, estimated; None where that was measured."""
        return None if self.rate is None else self.held.read / self.rate


def run(args: Namespace) -> int:
    """Read, perhaps measure, and report."""
    options = model_options(args)
    with Progress(sys.stderr) as progress:
        facts = read_facts(options.target, progress)
        cost = None
        try:
            cost = _cost(args, options, facts, progress)
        except BadModel as problem:  # only what is stored tells whether it can be decoded
            facts.problems.append(str(problem))
    fields = report(options, facts, cost)
    print(json_line(fields) if args.json else shown_safely(table(fields)))
    return int(bool(facts.problems))


def _cost(args: Namespace, options: ModelOptions, facts: Facts, progress: Progress) -> Cost | None:
    if facts.checkpoint is None:
        return None
    held = Held.of(facts.checkpoint, options.used_weights)
    proof, steps = known(options, facts.checkpoint)
    if args.measure and not facts.problems:
        target: Target = getattr(args, "loaded", None) or load(options, progress)
        proof, steps = target.proof, target.steps
    return Cost(proof, steps, held, bandwidth(options.used_threads) if steps is None else None)


def report(options: ModelOptions, facts: Facts, cost: Cost | None) -> dict[str, object]:
    """The fields of `inspect --json`; None is what could not be read or was not measured."""
    fields: dict[str, object] = {
        "target": options.target,
        "path": str(facts.path),
        "name": facts.name,
        "architecture": facts.architecture,
        **facts.numbers,
        "formats": {kind: {"tensors": n, "bytes": size} for kind, (n, size) in facts.formats.items()},
        "bytes": facts.bytes,
        "tokenizer": dict(facts.tokenizer),
        "weights": options.used_weights,
        "activations": options.used_activations,
        "threads": options.used_threads,
        "runs": not facts.problems,
        "problems": facts.problems,
        **dict.fromkeys(_COSTS),
    }
    if facts.checkpoint is None or cost is None:
        return fields
    token = facts.checkpoint.config.kv_bytes_per_token(_CACHE_BYTES)
    return fields | {
        "kv_bytes_per_token": token,
        "exactness": _exactness(options, cost.proof),
        "proof": None if cost.proof is None else asdict(cost.proof),
        "step_ms_by_rows": None if cost.steps is None else _milliseconds(cost.steps),
        "step_ms_estimate": None if cost.step is None else round(1e3 * cost.step, 3),
        "bandwidth_bytes_per_second": None if cost.rate is None else round(cost.rate),
        "memory_estimate": {
            "weights_bytes": cost.held.memory,
            "mapped_bytes": cost.held.mapped,
            "cache_tokens": options.cache_tokens,
            "cache_bytes": token * options.cache_tokens,
        },
    }


def _exactness(options: ModelOptions, proof: Proof | None) -> str | None:
    if proof is None:
        return None
    return "bitwise" if proof.form.bitwise and options.exactness != "numeric" else "numeric"


def _milliseconds(steps: StepTimes) -> dict[str, float]:
    return {str(rows): round(1e3 * seconds, 3) for rows, seconds in sorted(steps.table.items())}

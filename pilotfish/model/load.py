"""From a name to a model that runs: weights, tokenizer, runtime, self-check, step times.

    target = load(ModelOptions(target="embedded"), progress=print)
    target.runner, target.tokenizer, target.form, target.steps

Knows nothing of proposers, requests or sampling.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches

import openvino as ov

from pilotfish.errors import BadRequest, Unproven
from pilotfish.model.cache import BlockPool
from pilotfish.model.openvino.forms import FORMS
from pilotfish.model.openvino.memory import exact_allocations
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.openvino.store import Verdicts, cpu_name, stored_decoder
from pilotfish.model.runner import NUMERIC, Form
from pilotfish.model.selfcheck import SLOTS, VERSION, Proof, prove
from pilotfish.model.steptimes import COMMON, StepTimes, measure
from pilotfish.model.tokenizer import Tokenizer, load_tokenizer
from pilotfish.model.weights import Checkpoint, locate, open_checkpoint

EXACTNESS = ("bitwise", "numeric")
ACTIVATIONS = ("int8", "f32")
STEPS_VERSION = 2  # raise it when what is measured changes
WIDTHS = (4, 8)  # rows that may get graphs of their own beside the plain step's
MOST_COST = 1.6  # in plain steps: dearer ones are too rare to hold a copy of the weights for
MOST_COPIED = 256 << 20  # bytes of weights: with more of them, preparing a graph is little of a pass
Progress = Callable[[str], None]


def _silent(_: str) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Which model, and how it computes.

    target        "embedded", a .gguf file, a Hugging Face folder or a hub id
    exactness     "bitwise", "numeric", or None: bitwise where the self-check proves it
    weights       "stored" (the file's own numbers), "int8" or "int4" (rounded in groups of 32; int4 keeps
                  embedding and head at int8), "f16" (rounded to float16, held as float32) or "f32";
                  None: int8 for the embedded model, else as stored
    activations   "int8" or "f32"; None: int8 with int8 or int4 weights, else f32
    threads       CPU threads of a pass; 0: those this process may use
    cache_tokens  slots of the KV cache
    """

    target: str = "embedded"
    exactness: str | None = None
    weights: str | None = None
    activations: str | None = None
    threads: int = 0
    cache_tokens: int = 32768

    def __post_init__(self) -> None:
        for name, value, known in (
            ("exactness", self.exactness, EXACTNESS),
            ("weights", self.weights, FORMS),
            ("activations", self.activations, ACTIVATIONS),
        ):
            if value is not None and value not in known:
                nearest = get_close_matches(str(value), known, n=1, cutoff=0.0)[0]
                raise BadRequest(
                    f"{name} {value!r} is not known; did you mean {nearest!r}? Known: {', '.join(known)}"
                )
        if self.threads < 0:
            raise BadRequest(f"threads must be 0 or more, found {self.threads}")
        if self.cache_tokens < 64:
            raise BadRequest(f"cache_tokens must be at least 64, found {self.cache_tokens}")

    @property
    def used_weights(self) -> str:
        return self.weights or ("int8" if self.target == "embedded" else "stored")

    @property
    def used_activations(self) -> str:
        return self.activations or ("int8" if self.used_weights in ("int8", "int4") else "f32")

    @property
    def used_threads(self) -> int:
        return RuntimeConfig(threads=self.threads).used_threads


@dataclass(frozen=True, kw_only=True)
class Target:
    """A loaded model and what was found out about it on this machine.

    proof   the self-check's verdict, whichever form is used
    form    the form in use: the proven one, or NUMERIC
    steps   step times by rows in that form
    """

    options: ModelOptions
    checkpoint: Checkpoint
    tokenizer: Tokenizer
    runner: OpenVINORunner
    pool: BlockPool
    proof: Proof
    form: Form
    steps: StepTimes

    @property
    def exactness(self) -> str:
        """ "bitwise" or "numeric": what is in use."""
        return "bitwise" if self.form.bitwise else "numeric"

    @property
    def name(self) -> str:
        """What to call the model in reports: its file or folder, without the way there."""
        return self.checkpoint.path.stem if self.checkpoint.is_gguf else self.checkpoint.config.name

    @property
    def conditions(self) -> dict[str, object]:
        """What every report says of the model and the machine."""
        return {
            "target": self.options.target,
            "weights": self.options.used_weights,
            "activations": self.options.used_activations,
            "exactness": self.exactness,
            "machine": self.machine,
        }

    @property
    def machine(self) -> dict[str, object]:
        """What the figures were measured on."""
        return {"cpu": cpu_name(), "threads": self.threads, "runtime": f"openvino {ov.get_version()}"}

    @property
    def threads(self) -> int:
        return self.options.used_threads


def load(options: ModelOptions, progress: Progress = _silent, *, lasting: bool = False) -> Target:
    """Load a model, for a `lasting` program with all that `specialise` adds. `progress` is told what
    takes long.

    Raises BadModel, BadTokenizer, or Unproven where `bitwise` was demanded and is not to be had.
    """
    checkpoint = open_checkpoint(locate(options.target, progress))
    runtime = RuntimeConfig(
        activations=options.used_activations,
        threads=options.threads,
        cache_tokens=max(options.cache_tokens, SLOTS),  # the self-check's; the pool has what was asked for
    )
    progress(f"loading {options.target} ({options.used_weights} weights)")
    with ThreadPoolExecutor(1) as compiling:  # compiling takes one core, the tokenizer another
        compiled = compiling.submit(_runner, checkpoint, options, runtime)
        tokenizer = load_tokenizer(checkpoint)
        runner = compiled.result()
    verdicts = _verdicts(options, checkpoint)
    proof = _proof(runner, verdicts, progress)
    form = _form(options, proof, progress)
    target = Target(
        options=options,
        checkpoint=checkpoint,
        tokenizer=tokenizer,
        runner=runner,
        pool=BlockPool(blocks=-(-options.cache_tokens // runner.block_size), block_size=runner.block_size),
        proof=proof,
        form=form,
        steps=_steps(runner, form, verdicts, progress, again=lasting),
    )
    return specialise(target, progress) if lasting else target


def specialise(target: Target, progress: Progress = _silent) -> Target:
    """The same target, faster: the commonest passes of one sequence get graphs of their own, which need
    no preparing when the row count changes. For programs that run for long: it takes seconds, and every
    such graph holds another copy of the weights. Only small models are worth it; others stay as they are.
    """
    runner, options = target.runner, target.options
    rows = common_rows(target)
    if runner.weight_bytes > MOST_COPIED or target.steps.ready:
        return target
    verdicts = _verdicts(options, target.checkpoint, fixed_rows=rows)
    kept = _kept_proof(verdicts)
    if target.form.bitwise and kept is not None and kept.form != target.form:
        return target  # an earlier start found other bits
    progress("preparing graphs for the commonest passes")
    with exact_allocations():
        runner.specialise(lambda: stored_decoder(target.checkpoint, options.used_weights), rows)
    if target.form.bitwise and _proof(runner, verdicts, progress).form != target.form:
        progress("warning: they give other bits than the rest, and are not used")
        runner.specialise(lambda: stored_decoder(target.checkpoint, options.used_weights), ())
        return target
    return replace(target, steps=_steps(runner, target.form, verdicts, progress, again=True))


def common_rows(target: Target) -> tuple[int, ...]:
    """The rows of the commonest passes of one sequence: the plain step's, and those that cost little more."""
    least, seconds = target.form.min_tokens, target.steps.seconds
    return (least, *(rows for rows in WIDTHS if seconds(rows) < MOST_COST * seconds(least)))


def profiled_runner(target: Target) -> OpenVINORunner:
    """A small second copy of a loaded model whose passes count their time by kind of node."""
    options = target.options
    runtime = RuntimeConfig(
        activations=options.used_activations, threads=options.threads, cache_tokens=1024, profiled=True
    )
    return _runner(target.checkpoint, options, runtime)


def runner_in_form(target: Target, *, weights: str, activations: str, cache_tokens: int) -> OpenVINORunner:
    """A second copy of a loaded model with its weights in another form."""
    options = replace(target.options, weights=weights, activations=activations)
    runtime = RuntimeConfig(activations=activations, threads=options.threads, cache_tokens=cache_tokens)
    return _runner(target.checkpoint, options, runtime)


def _runner(checkpoint: Checkpoint, options: ModelOptions, runtime: RuntimeConfig) -> OpenVINORunner:
    with exact_allocations():
        stored = stored_decoder(checkpoint, options.used_weights)
        return OpenVINORunner(stored, checkpoint.config, runtime)


def known(options: ModelOptions, checkpoint: Checkpoint) -> tuple[Proof | None, StepTimes | None]:
    """What earlier starts found out on this machine, without loading the model."""
    verdicts = _verdicts(options, checkpoint)
    proof = _kept_proof(verdicts)
    if proof is None:
        return None, None
    return proof, _kept_steps(verdicts, NUMERIC if options.exactness == "numeric" else proof.form)


def _verdicts(options: ModelOptions, checkpoint: Checkpoint, *, fixed_rows: tuple[int, ...] = ()) -> Verdicts:
    runtime = RuntimeConfig(activations=options.used_activations, threads=options.threads)
    return Verdicts(checkpoint, options.used_weights, runtime, fixed_rows=fixed_rows)


def _kept_proof(verdicts: Verdicts) -> Proof | None:
    try:
        return Proof.from_dict(verdicts.read(f"proof-{VERSION}") or {})
    except (KeyError, TypeError):
        return None


def _proof(runner: OpenVINORunner, verdicts: Verdicts, progress: Progress) -> Proof:
    if kept := _kept_proof(verdicts):
        return kept
    progress("self-check: are a row's bits always the same on this machine? (kept for later starts)")
    proof = prove(runner)
    progress(str(proof))
    verdicts.write(f"proof-{VERSION}", proof.as_dict())
    return proof


def _form(options: ModelOptions, proof: Proof, progress: Progress) -> Form:
    if options.exactness == "bitwise" and not proof.form.bitwise:
        raise Unproven(f"bitwise was asked for; the self-check found: {proof}. Use --exactness numeric.")
    if options.exactness is None and not proof.form.bitwise:
        progress(f"warning: {proof}")
    return NUMERIC if options.exactness == "numeric" else proof.form


def _steps_name(form: Form) -> str:
    return f"steps-{STEPS_VERSION}-{form.min_tokens}-{form.max_rows}"


def _kept_steps(verdicts: Verdicts, form: Form) -> StepTimes | None:
    try:
        found = {
            key: float(str(seconds)) for key, seconds in (verdicts.read(_steps_name(form)) or {}).items()
        }
        switch = found.pop("switch", 0.0)
        table = {int(rows): seconds for rows, seconds in found.items()}
    except ValueError:
        return None
    return StepTimes(table, switch, verdicts.fixed_rows) if table else None


def _steps(
    runner: OpenVINORunner, form: Form, verdicts: Verdicts, progress: Progress, *, again: bool
) -> StepTimes:
    """Step times kept from earlier starts; `again` betters them by a few passes now. These also build the
    kernels of the common shapes, which is no request's fault, and mend a noisy first start."""
    kept = _kept_steps(verdicts, form)
    if kept is not None and not again:
        return kept
    if kept is not None:
        steps = kept.best_of(measure(runner, form, rows=COMMON, repeats=2, ready=verdicts.fixed_rows))
    else:
        progress("measuring step times (kept for later starts)")
        steps = measure(runner, form, ready=verdicts.fixed_rows)
    written: dict[str, object] = {str(rows): seconds for rows, seconds in steps.table.items()}
    verdicts.write(_steps_name(form), written | {"switch": steps.switch})
    return steps

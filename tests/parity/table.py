"""The table of families: how close to transformers, proven bit-identical or not, formats tested.

    PYTHONPATH=. python -m tests.parity.table      # needs torch and transformers; a minute

Every family is a random tiny model. "error" is the largest difference of a logit over whole prompts,
odd chunks and ragged batches, in float32. A format is tested when its packed weights give the logits of
the same weights widened, within 1e-3; it is listed with that difference.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import transformers
from gguf.constants import GGMLQuantizationType as Kind

from pilotfish.model.openvino.graph import decoder
from pilotfish.model.openvino.runner import OpenVINORunner, RuntimeConfig
from pilotfish.model.runner import Slice
from pilotfish.model.selfcheck import prove
from pilotfish.model.weights import Checkpoint, open_checkpoint
from tests.fixtures.family_gguf import write_family_gguf
from tests.parity.families import CASES, LENGTH, build, text

CLOSE = 1e-3
KINDS = (Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q5_1, Kind.Q5_0, Kind.Q4_1, Kind.Q4_0)


def logits(checkpoint: Checkpoint, form: str) -> np.ndarray:
    """Of a prompt longer than any window, [token, vocab]."""
    runner = OpenVINORunner(decoder(checkpoint, form), checkpoint.config, RuntimeConfig(cache_tokens=512))
    return runner.forward([Slice(text(5, LENGTH), 0, list(range(5)), range(LENGTH))]).logits[0].copy()


def formats(checkpoint: Checkpoint, folder: Path) -> dict[str, float]:
    """GGUF kind -> the largest difference between packed and widened weights."""
    config = checkpoint.config
    if any(config.windows) and config.architecture != "gemma3_text":  # no GGUF of them has windows
        return {}
    if config.architecture == "mistral":  # its files say "llama"
        checkpoint = replace(checkpoint, config=replace(config, architecture="llama"))
    if checkpoint.config.traits.gguf_name is None:
        return {}
    found = {}
    for kind in KINDS:
        stored = open_checkpoint(write_family_gguf(checkpoint, folder / f"{kind.name}.gguf", kind))
        found[kind.name] = float(np.abs(logits(stored, "stored") - logits(stored, "f32")).max())
    return found


def row(case: str) -> tuple[str, bool]:
    """One line of the table, and whether all of it is as it should be."""
    with tempfile.TemporaryDirectory() as folder:
        pair = build(case, Path(folder) / "model")
        error, proof = pair.error(), prove(pair.runner)
        tested = formats(pair.checkpoint, Path(folder))
    check = f"bitwise, {proof.compared} rows" if proof.form.bitwise else f"{proof.differing} rows differ"
    listed = ", ".join(tested) or "safetensors only"
    worst = max(tested.values(), default=0.0)
    good = error < CLOSE and proof.form.bitwise and worst < CLOSE
    return f"| {case} | {error:.1e} | {check} | {listed} | {worst:.1e} |", good


def main() -> int:
    print(f"transformers {transformers.__version__}; {LENGTH} tokens, random weights\n")
    print("| family | error | self-check | GGUF formats tested, beside safetensors | packed - widened |")
    print("|---|---|---|---|---|")
    good = True
    for case in CASES:
        line, fine = row(case)
        print(line, flush=True)
        good &= fine
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""What is kept in the user's cache folder: converted graphs, and verdicts about this machine.

The stateful decoder is saved, since OpenVINO cannot read a paged model back; reading it takes a
tenth of the time of building it. Verdicts are small JSON files. Both are written whole or not at
all, and a damaged file is made again.

    stored = stored_decoder(checkpoint, "int8")
    verdict = Verdicts(checkpoint, "int8", runtime).read("proof")

Knows nothing of what a verdict says.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import openvino as ov

from pilotfish.errors import BadModel
from pilotfish.model.openvino.compiled import RuntimeConfig, StoredDecoder, core
from pilotfish.model.openvino.graph import decoder
from pilotfish.model.weights import Checkpoint, cache_folder
from pilotfish.model.weights.mapped import map_file

GRAPH_VERSION = 6  # raise it when graph.py or forms.py change what they build


def stored_decoder(checkpoint: Checkpoint, form: str) -> StoredDecoder:
    """The stateful decoder from the cache folder, built now and put there where it is not.

    Where the folder cannot be written the model is built every time; nothing fails.
    """
    folder = cache_folder() / "graphs"
    name = _key(checkpoint.fingerprint, form, ov.get_version(), GRAPH_VERSION)
    path = folder / f"{name}.xml"
    stored = _read(path)
    if stored is not None:
        return stored
    model = decoder(checkpoint, form)
    if not _save(model, path):
        return StoredDecoder(model, None)
    del model  # before it is read back: its constants are as large as those that the plugin makes
    stored = _read(path)
    return stored or StoredDecoder(decoder(checkpoint, form), None)


def _read(path: Path) -> StoredDecoder | None:
    """The stored model, or None where there is none; a damaged one is taken away."""
    if not (path.is_file() and path.with_suffix(".bin").is_file()):
        return None
    try:
        mapped = map_file(path.with_suffix(".bin"), mode="c")
        weights = ov.Tensor(mapped.view(np.ndarray), shared_memory=True)
        return StoredDecoder(core().read_model(path.read_text("utf-8"), weights), mapped)
    except (RuntimeError, ValueError, BadModel):
        _remove(path)
        return None


def _save(model: ov.Model, path: Path) -> bool:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="graph-", dir=path.parent) as folder:
            made = Path(folder) / path.name
            ov.save_model(model, made, compress_to_fp16=False)
            # The weights first: a reader that finds the .xml finds the rest.
            os.replace(made.with_suffix(".bin"), path.with_suffix(".bin"))
            os.replace(made, path)
    except (OSError, RuntimeError):
        _remove(path)
        return False
    return True


def _remove(path: Path) -> None:
    with suppress(OSError):  # where nothing can be written, there is nothing to take away
        path.unlink()


class Verdicts:
    """Findings about one model in one form under one runtime on this machine."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        form: str,
        runtime: RuntimeConfig,
        *,
        fixed_rows: tuple[int, ...] = (),
    ) -> None:
        self.fixed_rows = fixed_rows
        parts = (checkpoint.fingerprint, form, ov.get_version(), GRAPH_VERSION, cpu_name())
        key = _key(*parts, runtime.activations, runtime.used_threads, runtime.taps, fixed_rows)
        self._folder = cache_folder() / "verdicts" / key

    def read(self, name: str) -> dict[str, object] | None:
        """A finding, or None where there is none (or none that can be read)."""
        try:
            found = json.loads((self._folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write(self, name: str, finding: dict[str, object]) -> None:
        """Keep a finding; where the folder cannot be written it is made again next time."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as file:
                json.dump(finding, file)
            os.replace(file.name, self._folder / f"{name}.json")
        except OSError:
            return


def cpu_name() -> str:
    """The processor's model name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _key(*parts: object) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()

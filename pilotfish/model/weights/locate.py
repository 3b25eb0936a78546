"""locate: the text after --target -> a file or folder on this machine.

    locate("embedded"), locate("model.gguf"), locate("./folder"), locate("HuggingFaceTB/SmolLM2-135M")
    locate("org/name@v1.0"), locate("org/name/file.gguf")

What lies on this machine goes before what the hub has under the same name. Knows nothing of what
the files hold.
"""

from __future__ import annotations

from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.weights.embedded import Progress, embedded_path
from pilotfish.model.weights.hub import HubModel, fetch
from pilotfish.model.weights.hub_files import silent

EMBEDDED = "embedded"


def locate(target: str, progress: Progress | None = None, *, any_architecture: bool = False) -> Path:
    """Finds a model, fetching it where needed. Raises BadModel where there is none.

    any_architecture: a hub model that pilotfish cannot run comes without its weights, not as an error.
    """
    if target == EMBEDDED:
        return embedded_path(progress)
    if not target:
        raise BadModel(
            f"no model is named; name a .gguf file, a Hugging Face folder, a hub id or {EMBEDDED!r}."
        )
    path = Path(target).expanduser()
    if path.is_file() or (path / "config.json").is_file():
        return path
    if path.is_dir():
        raise BadModel(
            f"{target!r} is a folder without config.json. Name a Hugging Face folder or a .gguf file."
        )
    wanted = HubModel.parse(target)
    # A mistyped path is no question for the hub.
    if wanted is None or (wanted.file is not None and Path(target.partition("/")[0]).is_dir()):
        raise BadModel(
            f"{target!r} is neither a file, nor a folder, nor a hub id like org/name, org/name@revision or"
            f" org/name/file.gguf. Give one of these, or {EMBEDDED!r}."
        )
    return fetch(wanted, progress or silent, any_architecture=any_architecture)

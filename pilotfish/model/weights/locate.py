"""locate: the text after --target -> a file or folder on this machine.

    locate("embedded"), locate("model.gguf"), locate("./folder"), locate("HuggingFaceTB/SmolLM2-135M")

Knows nothing of what the files hold.
"""

from __future__ import annotations

import re
from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.weights.embedded import Progress, embedded_path

EMBEDDED = "embedded"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
WANTED = ("*.json", "*.safetensors", "*.jinja")


def locate(target: str, progress: Progress | None = None) -> Path:
    """Finds a model, fetching it where needed. Raises BadModel where there is none."""
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
    if path.suffix != ".gguf" and HUB_ID.fullmatch(target):
        return _from_hub(target)
    raise BadModel(
        f"{target!r} is neither a file, nor a folder, nor a hub id like org/name. Give one of these, or"
        f" {EMBEDDED!r}."
    )


def _from_hub(target: str) -> Path:
    # Imported when needed: it takes 0.3 s, and most runs never ask the hub.
    from huggingface_hub import errors, snapshot_download

    try:
        return Path(snapshot_download(target, allow_patterns=list(WANTED)))
    except errors.GatedRepoError:
        found, remedy = "is gated", f"Ask for access at https://huggingface.co/{target}, then set HF_TOKEN"
    except errors.RepositoryNotFoundError:
        found, remedy = "is not on the hub, or private", "Check the name; set HF_TOKEN for a private model"
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        found, remedy = "is not in the local cache and the hub is out of reach", "Go online once"
    except Exception as problem:  # the hub's client lets the errors of its HTTP library through
        found, remedy = f"could not be fetched ({problem})", "Try again, or name a local folder"
    raise BadModel(f"the model {target!r} {found}. {remedy}.")

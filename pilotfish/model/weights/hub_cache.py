"""Kept: what the hub's cache holds of a model, by looking at the disk alone.

    kept = Kept.find("org/name", "main", file=None)
    kept.whole, kept.path, kept.state

The layout is the one of the hub's own library: blobs/ by digest, snapshots/ by commit with links to
them, refs/ with the commit of each branch and tag. Knows nothing of the network.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.weights.fields import read_json
from pilotfish.model.weights.safetensors_folder import INDEX, SINGLE

COMMIT = re.compile(r"[0-9a-f]{40}")
NEEDED = ("config.json", "tokenizer.json")


@dataclass(frozen=True)
class Kept:
    """The copy in the cache.

    path   where it is, or would be
    state  "whole", "absent", or what is missing
    """

    path: Path
    state: str

    @property
    def whole(self) -> bool:
        """True where nothing needs to be fetched."""
        return self.state == "whole"

    @classmethod
    def find(cls, repo: str, revision: str, file: str | None) -> Kept:
        """The copy of a GGUF in a repository, or of the folder where `file` is None."""
        store = store_of(repo)
        reference = store / "refs" / revision
        commit = revision
        if not COMMIT.fullmatch(revision) and reference.is_file():
            commit = reference.read_text().strip()
        folder = store / "snapshots" / commit
        if not folder.is_dir():
            # The commit of a revision is written down last, so this is all that a cut-off fetch leaves.
            begun = [*store.glob("blobs/*.incomplete"), *store.glob("snapshots/*")]
            return cls(folder, "incomplete: its download was cut off" if begun else "absent")
        missing = [name for name in _needed(folder, file) if not (folder / name).is_file()]
        state = f"incomplete: it lacks {', '.join(missing[:3])}" if missing else "whole"
        return cls(folder if file is None else folder / file, state)


def store_of(repo: str) -> Path:
    """The folder of a repository in the hub's cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / ("models--" + repo.replace("/", "--"))


def shards(folder: Path) -> list[str]:
    """The files that a folder's index lists. Raises BadModel where it lists none."""
    listed = read_json(folder / INDEX).values.get("weight_map")
    names = set(listed.values()) if isinstance(listed, dict) else set()
    if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise BadModel(f"{folder / INDEX}: 'weight_map' must map tensors to files. Choose another model.")
    return sorted(names)


def keep_revision(repo: str, revision: str, commit: str) -> None:
    """Write down which commit a branch or tag is."""
    if COMMIT.fullmatch(revision):
        return
    reference = store_of(repo) / "refs" / revision
    reference.parent.mkdir(parents=True, exist_ok=True)
    written = reference.with_name(f"{reference.name}.{os.getpid()}.tmp")
    written.write_text(commit)
    os.replace(written, reference)


def _needed(folder: Path, file: str | None) -> list[str]:
    if file is not None:
        return [file]
    if (folder / INDEX).is_file() and not (folder / SINGLE).is_file():
        return [*NEEDED, *shards(folder)]
    return [*NEEDED, SINGLE]

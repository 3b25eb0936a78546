"""hub: a model on the Hugging Face hub -> a file or folder in the hub's own cache.

    wanted = HubModel.parse("HuggingFaceTB/SmolLM2-135M@main")
    fetch(wanted, progress)                         # a folder; only what pilotfish reads is fetched
    fetch(HubModel.parse("org/name/file.gguf"))     # a file

A copy that is whole is used without asking where the revision is a commit or HF_HUB_OFFLINE is set,
and with a warning where the hub cannot be reached. Knows nothing of what the files hold.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.weights.folder_config import folder_config
from pilotfish.model.weights.hub_cache import COMMIT, Kept, keep_revision, shards
from pilotfish.model.weights.hub_errors import PAUSES, explained, is_passing, offline
from pilotfish.model.weights.hub_files import HubFile, bring, check_room, silent
from pilotfish.model.weights.safetensors_folder import INDEX, SINGLE

Progress = Callable[[str], None]

# Weights last: a folder that holds them holds the rest.
SMALL = (
    "generation_config.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "tokenizer.json",
    "config.json",
)
_NAME = r"[A-Za-z0-9][\w.-]*"
_TARGET = re.compile(rf"(?P<repo>{_NAME}/{_NAME})(?P<file>(?:/[^/@\s]+)+\.gguf)?(?:@(?P<revision>[\w./-]+))?")
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")
_SECONDS = 10  # for the hub to answer a question
_SHOWN = 12  # names in a message


@dataclass(frozen=True)
class HubModel:
    """What was asked for.

    repo      "org/name"
    revision  a branch, a tag or a commit
    file      a GGUF inside the repository, or None for a folder
    """

    repo: str
    revision: str = "main"
    file: str | None = None

    @classmethod
    def parse(cls, target: str) -> HubModel | None:
        """org/name, org/name/file.gguf, either with @revision; None for anything else."""
        found = _TARGET.fullmatch(target)
        if found is None or ".." in target:
            return None
        if found["file"] is None and found["revision"] is None and target.endswith(".gguf"):
            return None  # a path of two parts
        file = found["file"].removeprefix("/") if found["file"] else None
        return cls(found["repo"], found["revision"] or "main", file)

    def __str__(self) -> str:
        file = f"/{self.file}" if self.file else ""
        return f"{self.repo}{file}" + ("" if self.revision == "main" else f"@{self.revision}")


def fetch(wanted: HubModel, progress: Progress = silent, *, any_architecture: bool = False) -> Path:
    """Where the model lies, fetched where it is not there yet. Raises BadModel.

    Weights that pilotfish cannot run are not fetched: BadModel says why, or with `any_architecture`
    the folder comes without them.
    """
    # Nobody is told who downloads with what; the library reads this when it is first imported.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    from httpx2 import HTTPError
    from huggingface_hub import constants

    kept = Kept.find(wanted.repo, wanted.revision, wanted.file)
    if kept.whole and (constants.HF_HUB_OFFLINE or COMMIT.fullmatch(wanted.revision)):
        return kept.path
    if constants.HF_HUB_OFFLINE:
        raise offline(str(wanted), kept.state, "HF_HUB_OFFLINE is set")
    try:
        commit, files = _patient_listing(wanted, progress)
    except (HTTPError, OSError, ValueError, KeyError) as problem:  # the last two: an answer of another kind
        if kept.whole and is_passing(problem):
            progress(f"warning: the hub cannot be reached; {wanted} is used as it is in {kept.path}")
            return kept.path
        raise explained(problem, wanted.repo, wanted.revision, kept=kept.state) from None
    try:
        return _fetch(wanted, commit, files, progress=progress, any_architecture=any_architecture)
    except (HTTPError, OSError) as problem:
        raise explained(problem, wanted.repo, wanted.revision, kept=kept.state) from None


def _patient_listing(wanted: HubModel, progress: Progress) -> tuple[str, Mapping[str, HubFile]]:
    """Asks again where the hub is busy or ill; an absent network is not waited for."""
    for pause in PAUSES:
        try:
            return _listing(wanted)
        except Exception as problem:
            if not is_passing(problem) or getattr(problem, "response", None) is None:
                raise
            progress(f"the hub is busy; asking again in {pause} s")
            time.sleep(pause)
    return _listing(wanted)


def _listing(wanted: HubModel) -> tuple[str, Mapping[str, HubFile]]:
    """The commit of a revision, and its files by path."""
    from huggingface_hub import HfApi

    revision = None if wanted.revision == "main" else wanted.revision
    info = HfApi().model_info(wanted.repo, revision=revision, files_metadata=True, timeout=_SECONDS)
    files = {}
    for entry in info.siblings or []:
        stored = entry.lfs
        files[entry.rfilename] = HubFile(
            path=entry.rfilename,
            size=stored.size if stored is not None else entry.size or 0,
            digest=str(stored.sha256 if stored is not None else entry.blob_id),
        )
    return str(info.sha), files


def _fetch(
    wanted: HubModel,
    commit: str,
    files: Mapping[str, HubFile],
    *,
    progress: Progress,
    any_architecture: bool,
) -> Path:
    if wanted.file is not None:
        found = [_the_gguf(wanted, files)]
        check_room(wanted.repo, found)
        path = bring(wanted.repo, commit, found, progress)
        keep_revision(wanted.repo, wanted.revision, commit)
        return path / wanted.file
    if INDEX not in files and SINGLE not in files:
        _refuse_other_formats(wanted, files)
    names = SMALL if SINGLE in files else (*SMALL, INDEX)
    small = [files[name] for name in names if name in files]
    folder = bring(wanted.repo, commit, small, progress)
    try:
        folder_config(folder)
    except BadModel:
        if not any_architecture:
            raise
        return folder
    weights = [files[name] for name in _weight_names(wanted, folder, files)]
    check_room(wanted.repo, weights)
    bring(wanted.repo, commit, weights, progress)
    keep_revision(wanted.repo, wanted.revision, commit)
    return folder


def _weight_names(wanted: HubModel, folder: Path, files: Mapping[str, HubFile]) -> list[str]:
    if SINGLE in files:
        return [SINGLE]
    names = shards(folder)
    absent = [name for name in names if name not in files]
    if absent:
        raise BadModel(
            f"{wanted}: {INDEX} lists {len(names)} files, of which the hub lacks {absent[0]!r}. The upload is"
            " not whole; try another @revision."
        )
    return names


def _the_gguf(wanted: HubModel, files: Mapping[str, HubFile]) -> HubFile:
    name = str(wanted.file)
    if name not in files:
        raise BadModel(
            f"there is no {name!r} in {wanted.repo}@{wanted.revision}; {_ggufs(wanted, files)}. (Nor is"
            f" there such a file on this machine.)"
        )
    if _PART.search(name):
        raise BadModel(
            f"{wanted}: this is one part of a split GGUF, which pilotfish does not read; choose a whole one."
        )
    return files[name]


def _refuse_other_formats(wanted: HubModel, files: Mapping[str, HubFile]) -> None:
    if any(name.endswith(".gguf") for name in files):
        raise BadModel(f"{wanted} holds no safetensors, only GGUF files; {_ggufs(wanted, files)}.")
    weights = [name for name in files if name.endswith((".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx"))]
    found = f"its weights are {weights[0]}" if weights else f"its {len(files)} files hold no weights"
    raise BadModel(
        f"{wanted}: {found}; pilotfish reads model.safetensors (one or in shards) and GGUF. Choose a"
        " repository that has one of these."
    )


def _ggufs(wanted: HubModel, files: Mapping[str, HubFile]) -> str:
    names = sorted(name for name in files if name.endswith(".gguf") and not _PART.search(name))
    if not names:
        return "it holds no GGUF files"
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    example = HubModel(wanted.repo, wanted.revision, names[0])
    return f"name one, as in {example}. There are: {shown}"

"""bring: files of one commit on the hub -> the hub's own cache, checked, and resumed where cut off.

    check_room("org/name", files)
    folder = bring("org/name", commit, files, progress)

The hub's library starts a file again after an interruption and waits for its threads on Ctrl-C; here
a file is read by one connection at a time into `blobs/<digest>.incomplete`, goes on where it ended, and
gets its name when its digest is right. Knows nothing of which files a model needs.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pilotfish.errors import BadModel
from pilotfish.model.weights.hub_cache import store_of
from pilotfish.model.weights.hub_errors import PAUSES, is_passing

CHUNK = 1 << 20
SPARE = 16 << 20  # bytes that stay free on the disk
SHA256_DIGITS = 64  # a longer digest is a SHA-256, a shorter one that of git
_EVERY = 6.0  # seconds between two messages: a log hears what stands for five
_SMALL = 100_000  # bytes that are there before anybody can read of them
_PATIENCE = 30.0  # a message after so long, even if little has come

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """A progress that nobody hears."""


@dataclass(frozen=True)
class HubFile:
    """One file of a commit: its size, and the digest that is its name in the cache."""

    path: str
    size: int
    digest: str


def check_room(repo: str, files: Sequence[HubFile]) -> None:
    """Raises BadModel where the disk has no room for what is still to come."""
    blobs = store_of(repo) / "blobs"
    missing = sum(
        file.size - _size(blobs / f"{file.digest}.incomplete")
        for file in files
        if not (blobs / file.digest).exists()
    )
    place = next(folder for folder in (blobs, *blobs.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    if missing and missing + SPARE > free:
        raise _no_room(repo, missing)


def _no_room(repo: str, missing: int) -> BadModel:
    cache = store_of(repo).parent
    place = next(folder for folder in (cache, *cache.parents) if folder.exists())
    return BadModel(
        f"{repo} needs {_mb(missing)} MB more, but the disk of the hub's cache {cache} has only"
        f" {_mb(shutil.disk_usage(place).free)} MB free. Make room, or set HF_HOME to a folder on another"
        " disk; what has come is kept."
    )


def bring(repo: str, commit: str, files: Sequence[HubFile], progress: Progress) -> Path:
    """Fetches what is not there and links it; returns the folder of the commit.

    Raises BadModel where a file is not what the hub announced, and what the network and the disk raise.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import WeakFileLock

    store = store_of(repo)
    blobs, folder = store / "blobs", store / "snapshots" / commit
    blobs.mkdir(parents=True, exist_ok=True)
    locks = store.parent / ".locks" / store.name
    locks.mkdir(parents=True, exist_ok=True)
    told = _Told(progress, repo, files)
    for file in files:
        if (folder / file.path).exists():
            told.skip(file)
            continue
        with WeakFileLock(locks / f"{file.digest}.lock"):  # two processes must not write one file
            if not (blobs / file.digest).exists():
                _fetch(repo, commit, file, told)
        told.skip(file)
        hf_hub_download(repo, file.path, revision=commit, tqdm_class=_NoBar)  # only links what is there
    return folder


def _fetch(repo: str, commit: str, file: HubFile, told: _Told) -> None:
    from httpx2 import TransportError
    from huggingface_hub import hf_hub_url

    url = hf_hub_url(repo, file.path, revision=commit)
    blob = store_of(repo) / "blobs" / file.digest
    partial = blob.with_name(f"{file.digest}.incomplete")
    stalls = 0
    while (before := _size(partial)) != file.size or not partial.exists():
        try:
            _continue(url, partial, file, told)
            problem: Exception = TransportError("the connection ended early")
        except (TransportError, OSError) as found:
            if isinstance(found, OSError) and found.errno in (errno.ENOSPC, errno.EDQUOT):
                raise _no_room(repo, file.size - _size(partial)) from None
            if not is_passing(found):
                raise
            problem = found
        if _size(partial) == file.size:
            break
        stalls = 0 if _size(partial) > before else stalls + 1
        if stalls > len(PAUSES):
            raise problem
        time.sleep(PAUSES[max(0, stalls - 1)])
    _check_digest(partial, repo, file)
    os.replace(partial, blob)


def _continue(url: str, partial: Path, file: HubFile, told: _Told) -> None:
    """One connection: append what is missing, until it ends or breaks."""
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    begin = _size(partial)
    if begin > file.size:
        partial.unlink()
        begin = 0
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
        if response.status_code >= 400:
            response.read()
        hf_raise_for_status(response)
        with partial.open("ab" if response.status_code == 206 else "wb") as stream:
            for chunk in response.iter_bytes():  # as it comes: a chunk of a set size is lost when cut off
                stream.write(chunk)
                told.at(file, stream.tell())
                if stream.tell() > file.size:
                    break
    if _size(partial) > file.size:
        partial.unlink()
        raise BadModel(
            f"{file.path}: the hub sent more than the {file.size} bytes it announced. Try again later."
        )


def _check_digest(partial: Path, repo: str, file: HubFile) -> None:
    """Raises BadModel, and drops the file, where it is not the one that was announced."""
    digest = hashlib.sha256()
    if len(file.digest) < SHA256_DIGITS:
        digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
    with partial.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != file.digest:
        partial.unlink()
        raise BadModel(
            f"{repo}: {file.path} arrived with the checksum {digest.hexdigest()[:12]}…, the hub announced"
            f" {file.digest[:12]}…. The download was damaged; start it again."
        )


@dataclass
class _Told:
    """Says how far the files are, now and then."""

    progress: Progress
    repo: str
    files: Sequence[HubFile]
    done: dict[str, int] = field(default_factory=dict)
    spoken: tuple[float, int] | None = None

    def skip(self, file: HubFile) -> None:
        """The file is there."""
        self.done[file.path] = file.size

    def at(self, file: HubFile, size: int) -> None:
        """So much of a file has come."""
        self.done[file.path] = size
        now, sofar, total = time.monotonic(), sum(self.done.values()), sum(file.size for file in self.files)
        if total < _SMALL:
            return
        if self.spoken is not None:
            waited, came = now - self.spoken[0], sofar - self.spoken[1]
            if waited < _EVERY or (came < total / 20 and waited < _PATIENCE):
                return
        self.spoken = now, sofar
        self.progress(f"downloading {self.repo}: {file.path}, {_mb(sofar)} of {_mb(total)} MB")


class _NoBar:
    """What the hub's library shows its progress with: nothing."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _: float | None = 1) -> None:
        """Nothing to show."""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f}" if count < 10e6 else f"{count / 1e6:.0f}"

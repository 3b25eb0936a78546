"""locate: what a target text may be, and what is said when it is nothing."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import huggingface_hub
import pytest
from huggingface_hub import errors

from pilotfish.errors import BadModel
from pilotfish.model.weights import embedded_path, locate

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"


def test_files_folders_and_the_embedded_model(tmp_path: Path) -> None:
    assert locate("embedded") == embedded_path()
    assert locate(str(TINY)) == TINY
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert locate(str(tmp_path / "m.gguf")) == tmp_path / "m.gguf"


def test_a_hub_id_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", lambda *_, **__: str(TINY))
    assert locate("org/name-1.5") == TINY


@pytest.mark.parametrize("target", ["", "nowhere", "missing/model.gguf", "a/b/c", "https://x.y/z", "../x y"])
def test_anything_else_is_refused(target: str) -> None:
    with pytest.raises(BadModel, match=r"neither a file|without config\.json|no model is named"):
        locate(target)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=r"without config\.json"):
        locate(str(tmp_path))


RESPONSE = Mock()


@pytest.mark.parametrize(
    ("problem", "named"),
    [
        (errors.GatedRepoError("x", response=RESPONSE), "is gated.*HF_TOKEN"),
        (errors.RepositoryNotFoundError("x", response=RESPONSE), "is not on the hub"),
        (errors.LocalEntryNotFoundError("x"), "is not in the local cache.*Go online"),
        (errors.OfflineModeIsEnabled("x"), ".*out of reach"),
        (errors.HfHubHTTPError("teapot", response=RESPONSE), "could not be fetched .teapot"),
        (ConnectionError("refused"), "could not be fetched .refused"),
    ],
)
def test_hub_problems_say_what_to_do(problem: Exception, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise problem

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(BadModel, match=f"'org/name' {named}"):
        locate("org/name")

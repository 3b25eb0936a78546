"""locate: what a target text may be, and what is said when it is nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pilotfish.errors import BadModel
from pilotfish.model.weights import embedded_path, locate

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"


def test_files_folders_and_the_embedded_model(tmp_path: Path) -> None:
    assert locate("embedded") == embedded_path()
    assert locate(str(TINY)) == TINY
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    assert locate(str(tmp_path / "m.gguf")) == tmp_path / "m.gguf"


@pytest.mark.parametrize("target", ["", "nowhere", "missing/model.gguf", "a/b/c", "https://x.y/z", "../x y"])
def test_anything_else_is_refused(target: str) -> None:
    with pytest.raises(BadModel, match=r"neither a file|without config\.json|no model is named"):
        locate(target)


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadModel, match=r"without config\.json"):
        locate(str(tmp_path))


def test_the_hubs_library_is_imported_when_it_is_needed() -> None:
    script = (
        "import sys; from pilotfish.model.weights import locate; import pilotfish.llm; "
        f"locate({str(TINY)!r}); sys.exit('huggingface_hub' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0

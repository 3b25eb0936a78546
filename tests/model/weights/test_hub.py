"""fetch: hub ids, over a hub on this machine: what is fetched, resumed and reused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants

from pilotfish.errors import BadModel
from pilotfish.model.weights import locate, open_checkpoint
from pilotfish.model.weights.hub import HubModel
from tests.fixtures.tiny_gguf import write_gguf
from tests.model.weights.hub_server import COMMIT, HubServer, Repo, folder_files

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"
WEIGHTS = "model.safetensors"


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ("org/name-1.5", HubModel("org/name-1.5")),
        ("org/name@v1", HubModel("org/name", "v1")),
        ("org/name@refs/pr/3", HubModel("org/name", "refs/pr/3")),
        ("org/name/a.gguf", HubModel("org/name", "main", "a.gguf")),
        ("org/name/sub/a.gguf@v1", HubModel("org/name", "v1", "sub/a.gguf")),
        ("org/a.gguf", None),
        ("a/b/c", None),
        ("a/b@..", None),
        ("../x", None),
        ("nowhere", None),
    ],
)
def test_what_a_target_means(target: str, wanted: HubModel | None) -> None:
    assert HubModel.parse(target) == wanted
    assert wanted is None or str(wanted) == target


def test_only_what_is_needed_is_fetched(hub: HubServer) -> None:
    hub.repos["org/tiny"].files |= {
        "pytorch_model.bin": b"x" * 100,
        "onnx/model.onnx": b"y",
        "README.md": b"z",
    }
    folder = locate("org/tiny")
    assert folder == Path(constants.HF_HUB_CACHE) / "models--org--tiny" / "snapshots" / COMMIT
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        path.name for path in TINY.iterdir() if path.name != "expected.npz"
    )
    assert (folder / WEIGHTS).read_bytes() == (TINY / WEIGHTS).read_bytes()
    assert open_checkpoint(folder).config.layers == 2


def test_a_second_start_asks_once_and_fetches_nothing(hub: HubServer) -> None:
    folder = locate("org/tiny")
    hub.asked.clear()
    assert locate("org/tiny") == folder
    assert [(one.method, one.path) for one in hub.asked] == [("GET", "/api/models/org/tiny")]


def test_a_commit_that_is_there_is_not_asked_for(hub: HubServer) -> None:
    folder = locate(f"org/tiny@{COMMIT}")
    hub.asked.clear()
    assert locate(f"org/tiny@{COMMIT}") == folder
    assert hub.asked == []


def sharded() -> dict[str, bytes]:
    files = folder_files(TINY)
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    whole = files.pop(WEIGHTS)
    files[names["a"]], files[names["b"]] = whole, whole[: len(whole) // 2]
    files["model.safetensors.index.json"] = json.dumps({"weight_map": names}).encode()
    files["model-00009-of-00009.safetensors"] = b"of another form"
    return files


def test_shards_are_those_of_the_index(hub: HubServer) -> None:
    hub.repos["org/shards"] = Repo(sharded())
    found = {path.name for path in locate("org/shards").glob("*.safetensors")}
    assert found == {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
    del hub.repos["org/shards"].files["model-00002-of-00002.safetensors"]
    hub.repos["org/lacking"] = hub.repos.pop("org/shards")
    with pytest.raises(BadModel, match=r"the hub lacks 'model-00002-of-00002.safetensors'"):
        locate("org/lacking")


def test_a_gguf_inside_a_repository(hub: HubServer, tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "t.gguf").read_bytes()
    hub.repos["org/ggufs"] = Repo({"q4/t.gguf": content, "big-00001-of-00002.gguf": b"x", "README.md": b""})
    path = locate("org/ggufs/q4/t.gguf@v1")
    assert path.read_bytes() == content
    assert not hub.bodies("README.md")
    with pytest.raises(BadModel, match=r"no safetensors, only GGUF.*as in org/ggufs/q4/t\.gguf\. There"):
        locate("org/ggufs")
    with pytest.raises(BadModel, match=r"there is no 'x\.gguf' in org/ggufs@main; name one.*q4/t\.gguf"):
        locate("org/ggufs/x.gguf")
    with pytest.raises(BadModel, match="one part of a split GGUF"):
        locate("org/ggufs/big-00001-of-00002.gguf")


def test_a_mistyped_path_is_no_question_for_the_hub(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadModel, match="neither a file"):
        locate("models/sub/x.gguf")
    assert hub.asked == []


def test_an_architecture_that_is_not_built_costs_no_weights(hub: HubServer) -> None:
    files = folder_files(TINY)
    files["config.json"] = json.dumps(json.loads(files["config.json"]) | {"model_type": "mamba"}).encode()
    hub.repos["org/mamba"] = Repo(files)
    with pytest.raises(BadModel, match="the architecture is 'mamba'"):
        locate("org/mamba")
    assert (locate("org/mamba", any_architecture=True) / "tokenizer.json").is_file()
    assert not hub.bodies(WEIGHTS)


# Interruptions.


def test_a_broken_connection_goes_on_where_it_broke(hub: HubServer) -> None:
    hub.cut[WEIGHTS] = [100_000, 50_000]
    assert (locate("org/tiny") / WEIGHTS).read_bytes() == (TINY / WEIGHTS).read_bytes()
    assert [one.range for one in hub.bodies(WEIGHTS)] == [None, "bytes=100000-", "bytes=150000-"]


def test_a_second_start_goes_on_where_the_first_broke(hub: HubServer) -> None:
    hub.cut[WEIGHTS] = [100_000, 0, 0, 0]
    with pytest.raises(BadModel, match="the hub cannot be asked"):
        locate("org/tiny")
    hub.asked.clear()
    assert (locate("org/tiny") / WEIGHTS).read_bytes() == (TINY / WEIGHTS).read_bytes()
    assert [one.range for one in hub.bodies(WEIGHTS)] == ["bytes=100000-"]
    assert not hub.bodies("tokenizer.json")


def test_a_hub_that_knows_no_ranges_sends_all_again(hub: HubServer) -> None:
    hub.cut[WEIGHTS], hub.ranges = [100_000], False
    assert (locate("org/tiny") / WEIGHTS).read_bytes() == (TINY / WEIGHTS).read_bytes()


def test_progress_says_what_and_how_much(hub: HubServer) -> None:
    said: list[str] = []
    locate("org/tiny", said.append)
    assert said[0].startswith("downloading org/tiny: ")
    assert said == [said[0]] and WEIGHTS in said[0] and said[0].endswith(" of 0.5 MB")


# Offline.


def set_offline(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def set_unreachable(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the discard port: nobody listens


Absence = Callable[[HubServer, pytest.MonkeyPatch], None]
absences = pytest.mark.parametrize("leave", [set_offline, set_unreachable])


@absences
def test_a_whole_copy_serves_offline(hub: HubServer, leave: Absence, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = locate("org/tiny")
    hub.asked.clear()
    leave(hub, monkeypatch)
    said: list[str] = []
    assert locate("org/tiny", said.append) == folder
    assert hub.asked == []
    assert ("warning: the hub cannot be reached" in " ".join(said)) == (leave is set_unreachable)


@absences
def test_a_gguf_serves_offline(
    hub: HubServer, leave: Absence, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hub.repos["org/ggufs"] = Repo({"t.gguf": write_gguf(tmp_path / "t.gguf").read_bytes()})
    path = locate("org/ggufs/t.gguf")
    leave(hub, monkeypatch)
    assert locate("org/ggufs/t.gguf") == path
    with pytest.raises(BadModel, match=r"it lacks u\.gguf"):
        locate("org/ggufs/u.gguf")


@absences
@pytest.mark.parametrize("lost", [WEIGHTS, "tokenizer.json"])
def test_an_incomplete_copy_is_called_so(
    hub: HubServer, leave: Absence, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (locate("org/tiny") / lost).unlink()
    leave(hub, monkeypatch)
    with pytest.raises(BadModel, match=f"is incomplete in the hub cache: it lacks {lost}.*Go online"):
        locate("org/tiny")


@absences
def test_a_download_that_was_cut_off_is_called_so(
    hub: HubServer, leave: Absence, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.cut[WEIGHTS] = [100_000, 0, 0, 0]
    with pytest.raises(BadModel):
        locate("org/tiny")
    leave(hub, monkeypatch)
    with pytest.raises(BadModel, match="incomplete in the hub cache: its download was cut off"):
        locate("org/tiny")


@absences
def test_no_copy_and_no_hub(hub: HubServer, leave: Absence, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(hub, monkeypatch)
    with pytest.raises(BadModel, match="'org/tiny' is not in the hub's cache, and the hub cannot be asked"):
        locate("org/tiny")

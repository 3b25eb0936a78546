"""fetch: hub ids, over a hub on this machine: what is fetched, resumed, reused, and said when it fails."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import constants

from pilotfish.errors import BadModel
from pilotfish.model.weights import hub as hub_module
from pilotfish.model.weights import locate, open_checkpoint
from pilotfish.model.weights.hub import HubModel, fetch
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


# Refusals.


def test_a_gated_model(hub: HubServer) -> None:
    hub.repos["org/tiny"].gated = True
    with pytest.raises(BadModel, match=f"is gated. Ask for access at {hub.url}/org/tiny, then set HF_TOKEN"):
        locate("org/tiny")


@pytest.mark.parametrize("target", ["org/private", "org/nothing", "org/nothing/x.gguf"])
def test_a_missing_or_private_model(hub: HubServer, target: str) -> None:
    hub.repos["org/private"] = Repo(folder_files(TINY), private=True)
    with pytest.raises(BadModel, match=r"is not on the hub, or private. Check the name"):
        locate(target)


def test_a_wrong_revision_names_those_there_are(hub: HubServer) -> None:
    with pytest.raises(BadModel, match=r"has no revision 'v9'. There are: main, v1, and commits"):
        locate("org/tiny@v9")


def test_a_refused_token(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.token = "right"
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(BadModel, match=r"the hub refuses the token. Renew it at") as caught:
        locate("org/tiny")
    assert "hf_wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "headers", "said"),
    [
        (429, {"Retry-After": "17"}, "limits how often it is asked. Try again in 17 s"),
        (503, {"X-Error-Message": "on fire"}, "the hub answered on fire. Try again later"),
        (403, {"X-Error-Message": "no"}, "is forbidden to this token"),
    ],
)
@pytest.mark.parametrize("path", ["/api/models/org/tiny", f"/org/tiny/resolve/{COMMIT}/{WEIGHTS}"])
def test_answers_that_stay_bad(
    hub: HubServer, status: int, headers: dict[str, str], said: str, path: str
) -> None:
    hub.answers[path] = [(status, headers)] * 3
    with pytest.raises(BadModel, match=said):
        locate("org/tiny")
    assert len([one for one in hub.asked if one.path == path]) == (1 if status == 403 else 3)


@pytest.mark.parametrize("path", ["/api/models/org/tiny", f"/org/tiny/resolve/{COMMIT}/{WEIGHTS}"])
def test_a_busy_hub_is_asked_again(hub: HubServer, path: str) -> None:
    hub.answers[path] = [(503, {}), (429, {})]
    assert (locate("org/tiny") / WEIGHTS).is_file()


def test_an_answer_that_is_not_the_hubs(hub: HubServer) -> None:
    hub.answers["/api/models/org/tiny"] = [(200, {})]  # no JSON: a login page
    with pytest.raises(BadModel, match=r"was not the hub's.*Check HF_ENDPOINT"):
        locate("org/tiny")


def test_a_name_the_hub_cannot_have(hub: HubServer) -> None:
    with pytest.raises(BadModel, match="cannot be the name of a hub model"):
        locate("org/a--b")


@pytest.mark.parametrize("name", [WEIGHTS, "config.json"])
def test_damage_on_the_way_is_found(hub: HubServer, name: str) -> None:
    hub.damaged.add(name)
    with pytest.raises(BadModel, match=rf"{name} arrived with the checksum .* start it again"):
        locate("org/tiny")
    hub.damaged.clear()
    assert (locate("org/tiny") / name).read_bytes() == (TINY / name).read_bytes()


def test_more_bytes_than_announced(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:

    url = "/api/models/org/tiny"
    assert url  # the listing is made before the file grows
    from pilotfish.model.weights import hub as hub_module

    commit, files = hub_module._listing(HubModel("org/tiny"))
    hub.repos["org/tiny"].files["config.json"] += b" more"
    monkeypatch.setattr(hub_module, "_listing", lambda _: (commit, files))
    with pytest.raises(BadModel, match="the hub sent more than the"):
        locate("org/tiny")


# The disk.


def test_room_is_checked_before(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=300_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BadModel, match=r"org/tiny needs 0\.5 MB more.* has only 0\.3 MB free.*HF_HOME"):
        locate("org/tiny")
    assert not hub.bodies(WEIGHTS)


def test_a_disk_that_fills_up(hub: HubServer) -> None:
    _, files = hub_module._listing(HubModel("org/tiny"))
    blobs = Path(constants.HF_HUB_CACHE) / "models--org--tiny" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{files[WEIGHTS].digest}.incomplete").symlink_to("/dev/full")
    with pytest.raises(BadModel, match=r"org/tiny needs 0\.5 MB more, but the disk of the hub's cache"):
        locate("org/tiny")


def test_a_cache_that_cannot_be_written(hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(BadModel, match=r"could not be stored in the hub's cache.*HF_HOME"):
        fetch(HubModel("org/tiny"))


def test_other_formats_are_named(hub: HubServer) -> None:
    hub.repos["org/torch"] = Repo({"config.json": b"{}", "pytorch_model.bin": b"x"})
    hub.repos["org/empty"] = Repo({"README.md": b""})
    with pytest.raises(BadModel, match=r"its weights are pytorch_model\.bin; pilotfish reads"):
        locate("org/torch")
    with pytest.raises(BadModel, match="its 1 files hold no weights"):
        locate("org/empty")

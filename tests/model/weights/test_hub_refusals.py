"""fetch: what is said when the hub refuses, sends something else, or the disk is full."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

from pilotfish.errors import BadModel
from pilotfish.model.weights import hub as hub_module
from pilotfish.model.weights import locate
from pilotfish.model.weights.hub import HubModel, fetch
from tests.model.weights.hub_server import COMMIT, HubServer, Repo, folder_files

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"
WEIGHTS = "model.safetensors"


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

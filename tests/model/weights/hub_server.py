"""HubServer: the parts of the hub's HTTP interface that fetching a model uses, on this machine.

with HubServer({"org/tiny": Repo(folder_files(TINY))}) as hub:
    hub.url, hub.asked                      # for HF_ENDPOINT; every request so far
    hub.answers["/api/models/org/tiny"] = [(429, {"Retry-After": "7"})]     # once, then as usual
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import unquote, urlsplit

LFS = (".safetensors", ".gguf", ".bin", ".npz")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def folder_files(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@dataclass
class Repo:
    """A repository: `files`, at every revision the same; who may not read it."""

    files: dict[str, bytes]
    revisions: Mapping[str, str] = field(default_factory=lambda: {"main": COMMIT, "v1": COMMIT})
    gated: bool = False
    private: bool = False


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    range: str | None


class HubServer:
    """A hub on a port of its own.

    answers  scripted answers by path: (status, headers), each given once, before the usual one
    cut      by file name: after how many bytes of a body the connection breaks, once each
    damaged  names of files whose bytes are not what was announced
    pause    seconds between chunks of a body
    token    when set, any other token is refused
    """

    def __init__(self, repos: dict[str, Repo]) -> None:
        self.repos = repos
        self.answers: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.cut: dict[str, list[int]] = {}
        self.damaged: set[str] = set()
        self.pause, self.chunk = 0.0, 1 << 14
        self.token: str | None = None
        self.ranges = True
        self.asked: list[Asked] = []
        hub = self

        class Bound(_Handler):
            server_hub = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def bodies(self, name: str) -> list[Asked]:
        """The requests for the contents of a file."""
        return [one for one in self.asked if one.method == "GET" and one.path.endswith(f"/{name}")]


class _Handler(BaseHTTPRequestHandler):
    server_hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, path = self.server_hub, unquote(urlsplit(self.path).path)
        hub.asked.append(Asked(self.command, path, self.headers.get("Range")))
        sent = self.headers.get("Authorization")
        if hub.answers.get(path):
            status, headers = hub.answers[path].pop(0)
            return self._say(status, headers)
        if hub.token is not None and sent is not None and sent != f"Bearer {hub.token}":
            return self._say(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
        if path.startswith("/api/models/"):
            return self._api(path.removeprefix("/api/models/"))
        repo, _, rest = path.removeprefix("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        self._file(repo, revision, name)

    def _say(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, value: object) -> None:
        self._say(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def _api(self, rest: str) -> None:
        name, _, revision = rest.removesuffix("/refs").partition("/revision/")
        repo = self.server_hub.repos.get(name)
        if repo is None or repo.private:
            return self._say(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        if rest.endswith("/refs"):
            refs = [
                {"name": ref, "ref": f"refs/heads/{ref}", "targetCommit": sha}
                for ref, sha in repo.revisions.items()
            ]
            return self._json({"branches": refs, "converts": [], "tags": []})
        commit = _commit(repo, revision or "main")
        if commit is None:
            return self._say(404, {"X-Error-Code": "RevisionNotFound"})
        siblings = [_sibling(path, content) for path, content in repo.files.items()]
        self._json({"id": name, "modelId": name, "sha": commit, "siblings": siblings, "tags": []})

    def _file(self, name: str, revision: str, path: str) -> None:
        repo = self.server_hub.repos.get(name)
        if repo is None or _commit(repo, revision) is None or path not in repo.files:
            return self._say(404, {"X-Error-Code": "EntryNotFound"})
        if repo.gated:
            return self._say(403, {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        content = repo.files[path]
        headers = {"ETag": f'"{_digest(path, content)}"', "X-Repo-Commit": str(_commit(repo, revision))}
        if path in self.server_hub.damaged:
            content = content[:-1] + bytes([content[-1] ^ 1])
        begin = 0
        if self.headers.get("Range") and self.server_hub.ranges:
            begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        self.send_response(206 if "Content-Range" in headers else 200)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        if self.command != "HEAD":
            self._body(path, content[begin:])

    def _body(self, path: str, content: bytes) -> None:
        hub = self.server_hub
        cut = hub.cut[path].pop(0) if hub.cut.get(path) else len(content)
        try:
            for at in range(0, min(cut, len(content)), hub.chunk):
                self.wfile.write(content[at : min(at + hub.chunk, cut)])
                self.wfile.flush()
                time.sleep(hub.pause if len(content) > hub.chunk else 0)
        except OSError:  # the client has left
            self.close_connection = True
        if cut < len(content):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def _commit(repo: Repo, revision: str) -> str | None:
    return revision if revision in repo.revisions.values() else repo.revisions.get(revision)


def _digest(path: str, content: bytes) -> str:
    if path.endswith(LFS):
        return hashlib.sha256(content).hexdigest()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()


def _sibling(path: str, content: bytes) -> dict[str, object]:
    found: dict[str, object] = {"rfilename": path, "size": len(content)}
    if path.endswith(LFS):
        lfs = {"sha256": _digest(path, content), "size": len(content), "pointerSize": 130}
        return found | {"blobId": "f" * 40, "lfs": lfs}
    return found | {"blobId": _digest(path, content)}

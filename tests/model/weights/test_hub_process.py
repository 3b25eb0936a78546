"""Hub ids from the command line: Ctrl-C in the middle of a download, and the run after it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.model.weights.hub_server import HubServer

TINY = Path(__file__).parents[2] / "fixtures" / "tiny_llama"
WEIGHTS = "model.safetensors"


def start(hub: HubServer, folder: Path, **more: str) -> subprocess.Popen[str]:
    argv = ["generate", "hi", "--raw", "--target", "org/tiny", "--json", "--max-new-tokens", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(folder), "PILOTFISH_CACHE": str(folder / "own")}
    return subprocess.Popen(
        [sys.executable, "-m", "pilotfish", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | more,
        # Where these tests run in the background of a shell, SIGINT is ignored, and would be by the child.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def test_an_interrupted_download_is_continued(hub: HubServer, tmp_path: Path) -> None:
    hub.pause = 0.05
    home = tmp_path / "home"
    run = start(hub, home)
    until = time.monotonic() + 60
    digest = hashlib.sha256((TINY / WEIGHTS).read_bytes()).hexdigest()
    partial = home / "hub" / "models--org--tiny" / "blobs" / f"{digest}.incomplete"
    while not (partial.exists() and partial.stat().st_size):
        assert run.poll() is None and time.monotonic() < until, run.communicate()
        time.sleep(0.02)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=30)
    assert (run.returncode, out) == (130, "")
    assert "Traceback" not in err and "%|" not in err
    kept = partial.stat().st_size
    assert kept > 0

    hub.pause = 0.0
    run = start(hub, home)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert json.loads(out)["usage"]["completion_tokens"] <= 2
    assert [one.range for one in hub.bodies(WEIGHTS)] == [None, f"bytes={kept}-"]
    assert not list(home.glob("hub/*/blobs/*.incomplete"))

    asked = len(hub.asked)
    run = start(hub, home, HF_HUB_OFFLINE="1")
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert len(hub.asked) == asked

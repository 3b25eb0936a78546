"""Nobody is told that pilotfish runs."""

from __future__ import annotations

import subprocess
import sys


def test_the_runtime_reports_to_nobody() -> None:
    """OpenVINO's telemetry package is never imported, in whatever order things are loaded."""
    code = "import pilotfish.llm, sys; print(sys.modules.get('openvino_telemetry'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None"

"""The machinery one folder down: weights, tokenizers, runtimes and the KV cache."""

import sys

# `import openvino` would otherwise report its use to a server, unasked, from a child process of ours.
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]

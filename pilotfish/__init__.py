"""pilotfish: lossless speculative decoding. `LLM` is the front door; see `pilotfish.llm`.

The names below are loaded when they are first used: `import pilotfish` starts no runtime.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pilotfish.errors import PilotfishError

if TYPE_CHECKING:
    from pilotfish.llm import LLM, Choice, Completion, SpeculationOptions
    from pilotfish.sampling import SamplingParams

__version__ = "0.1.0"
__all__ = ["LLM", "Choice", "Completion", "PilotfishError", "SamplingParams", "SpeculationOptions"]

_HOMES = {
    "LLM": "pilotfish.llm",
    "Choice": "pilotfish.llm",
    "Completion": "pilotfish.llm",
    "SpeculationOptions": "pilotfish.llm",
    "SamplingParams": "pilotfish.sampling",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'pilotfish' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

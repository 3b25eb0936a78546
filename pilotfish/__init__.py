"""pilotfish: lossless speculative decoding. `LLM` is the front door; see `pilotfish.llm`."""

from pilotfish.errors import PilotfishError
from pilotfish.llm import LLM, Choice, Completion, SpeculationOptions
from pilotfish.sampling import SamplingParams

__all__ = ["LLM", "Choice", "Completion", "PilotfishError", "SamplingParams", "SpeculationOptions"]
__version__ = "0.1.0"

"""What tests of several folders share: the embedded model, loaded once."""

from __future__ import annotations

import pytest

from pilotfish.llm import LLM


@pytest.fixture(scope="session")
def embedded_llm() -> LLM:
    """The embedded model as it is used by default."""
    return LLM()

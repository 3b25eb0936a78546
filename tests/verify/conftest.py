"""What the verification tests share: the sampling settings."""

from __future__ import annotations

from typing import Any

import pytest

SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0, "presence_penalty": 0.7},
    "cold": {"temperature": 0.3},
    "plain": {"temperature": 1.0},
    "hot top-k": {"temperature": 2.0, "top_k": 2},
    "top-p": {"temperature": 1.0, "top_p": 0.8},
    "penalties": {
        "temperature": 1.0,
        "repetition_penalty": 1.4,
        "presence_penalty": 0.6,
        "frequency_penalty": 0.5,
    },
    "everything": {
        "temperature": 2.0,
        "top_k": 3,
        "top_p": 0.95,
        "min_p": 0.05,
        "repetition_penalty": 0.8,
        "frequency_penalty": 0.9,
        "logit_bias": {1: 1.5},
    },
}


@pytest.fixture(params=list(SETTINGS.values()), ids=list(SETTINGS))
def setting(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Sampling parameters by name, without a seed and a limit."""
    chosen: dict[str, Any] = request.param
    return chosen

"""The embedded model, opened once."""

from __future__ import annotations

import pytest

from pilotfish.model.weights import Checkpoint, embedded_path, open_checkpoint


@pytest.fixture(scope="session")
def embedded() -> Checkpoint:
    return open_checkpoint(embedded_path())

from __future__ import annotations

from pathlib import Path

import pytest

from assay import hub


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The real model file: fetched once into the cache, whatever the number of test processes."""
    return hub.pull("smollm2")

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from assay import hub

# An example takes as long as the machine is busy: a test fails for that only if it sets a deadline itself.
settings.register_profile("assay", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("assay")
# Whoever starts the tests in the background has Ctrl-C ignored, in this process and in those that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def smollm2_path() -> Path:
    """The real model file: fetched once into the cache, whatever the number of test processes."""
    return hub.pull("smollm2")

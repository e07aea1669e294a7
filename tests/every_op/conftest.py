from __future__ import annotations

from collections.abc import Iterator

import pytest

from assay.runtime.cpu import Cpu


@pytest.fixture(scope="session")
def devices() -> Iterator[dict[int, Cpu]]:
    """A device with each number of threads."""
    made = {threads: Cpu(threads, capacity=1 << 30) for threads in (1, 2, 3, 4)}
    yield made
    for device in made.values():
        device.close()


@pytest.fixture(scope="session")
def guarded() -> Iterator[dict[int, Cpu]]:
    """Devices whose buffers lie between red zones and begin as NaNs."""
    made = {threads: Cpu(threads, capacity=1 << 28, guard=True) for threads in (1, 3)}
    yield made
    for device in made.values():
        device.close()

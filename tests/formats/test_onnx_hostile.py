"""Hostile ONNX models are refused in little time and memory, before anything large is made of them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from formats.campaign import TESTS
from formats.hostile_onnx import CASES

SOUND = {
    "branches 3 deep", "branches 20 deep", "a symbol of 1 MB", "a symbol that grows",
    "a symbol of powers", "ConstantOfShape of 4 TB, unread", "products", "LRN over 2**62 channels",
    "an expression that backtracks", "edge 2**25 times",
}  # fmt: skip
"""Those that look bad, and run."""
MEGABYTES = 300.0


@pytest.fixture(scope="module")
def attempts() -> dict[str, tuple[str, float, float]]:
    """What came of each case, in a process whose address space a hostile model would burst."""
    command = [sys.executable, "-W", "ignore", "-m", "formats.hostile_onnx"]
    done = subprocess.run(command, cwd=TESTS, check=True, capture_output=True, text=True)
    lines = map(json.loads, done.stdout.splitlines())
    return {name: (result, seconds, megabytes) for name, result, seconds, megabytes in lines}


@pytest.mark.parametrize("name", CASES)
def test_refused_in_little_time_and_memory(name: str, attempts: dict[str, tuple[str, float, float]]) -> None:
    """The processor's time; twice the bound of 1 s, since a suite runs beside others."""
    result, seconds, megabytes = attempts[name]
    assert not result.startswith("!"), result
    assert (result == "ran") == (name in SOUND), result
    assert seconds < 2 and megabytes < MEGABYTES, (result, seconds, megabytes)

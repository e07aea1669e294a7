"""A sample of `fuzz_gguf.py`: damaged headers are a FormatError or a sound file, in little time and space."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from formats import fuzz_gguf
from formats.campaign import MEGABYTES, SECONDS

SEEDS = {"smollm2": fuzz_gguf.smollm2(), "synthetic": fuzz_gguf.synthetic()}


@pytest.mark.parametrize("name", SEEDS)
def test_seeds_are_sound(name: str, tmp_path: Path) -> None:
    seed = SEEDS[name]
    fuzz_gguf.write(tmp_path / "m", seed.header, len(seed.header) + seed.tail)
    assert fuzz_gguf.attempt(tmp_path / "m") == "opened"


@pytest.mark.parametrize("name", SEEDS)
@settings(deadline=1000, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rng=st.randoms(use_true_random=False))
def test_mutations(name: str, rng: random.Random, tmp_path: Path) -> None:
    fuzz_gguf.write(tmp_path / "m", *fuzz_gguf.mutated(SEEDS[name], rng))
    fuzz_gguf.attempt(tmp_path / "m")


@settings(deadline=1000, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(size=st.integers(0, len(SEEDS["synthetic"].header) + SEEDS["synthetic"].tail - 1))
@example(size=len(SEEDS["synthetic"].header))
def test_truncations(size: int, tmp_path: Path) -> None:
    """No shorter file is sound: the last tensor's last byte is missed, unless only padding was cut."""
    seed = SEEDS["synthetic"]
    fuzz_gguf.write(tmp_path / "m", seed.header[:size], size)
    padding = -42 % 32  # behind the 42 bytes of the last tensor
    opened = fuzz_gguf.attempt(tmp_path / "m") == "opened"
    assert opened == (size >= len(seed.header) + seed.tail - padding)


@pytest.mark.parametrize("name", ["a million wide strings", "one long string", "tensors"])
def test_largest_headers(name: str, tmp_path: Path) -> None:
    """Three times the bound of 1 s, of which 0.8 was measured, because a suite runs beside others."""
    header, tail = next((header, tail) for other, header, tail in fuzz_gguf.heavy() if other == name)
    fuzz_gguf.write(tmp_path / "m", header, len(header) + tail)
    result, seconds, megabytes = fuzz_gguf.CAMPAIGN.alone(tmp_path / "m")
    assert result == "opened"
    assert megabytes < MEGABYTES
    assert seconds < 3 * SECONDS

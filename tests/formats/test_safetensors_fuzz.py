"""A sample of `fuzz_safetensors.py`: damaged folders are a FormatError or sound, in little time and space."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.formats.safetensors import SINGLE
from formats import fuzz_safetensors
from formats.campaign import MEGABYTES, SECONDS
from formats.safetensors_bytes import sound, table


def test_seeds_are_sound(tmp_path: Path) -> None:
    for number, files in enumerate(fuzz_safetensors.seeds()):
        (tmp_path / str(number)).mkdir()
        for name, data in files.items():
            (tmp_path / str(number) / name).write_bytes(data)
        assert fuzz_safetensors.attempt(tmp_path / str(number)) == "opened"
        fuzz_safetensors.check(tmp_path / str(number), "opened")


@settings(deadline=1000, max_examples=200)
@given(rng=st.randoms(use_true_random=False))
def test_mutations(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = fuzz_safetensors.made(rng, Path(folder))
        fuzz_safetensors.check(path, fuzz_safetensors.attempt(path))


def test_truncations(tmp_path: Path) -> None:
    """No shorter file is sound, and none that is longer."""
    whole = sound(table({"a": ("F32", (2,)), "b": ("BF16", (3,))}))
    for size in range(len(whole) + 8):
        (tmp_path / SINGLE).write_bytes(whole[:size] + bytes(max(0, size - len(whole))))
        assert (fuzz_safetensors.attempt(tmp_path) == "opened") == (size == len(whole))


@pytest.mark.parametrize("name", ["tensors", "fractions", "a long string", "shards"])
def test_largest_headers(name: str, tmp_path: Path) -> None:
    """Three times the bound of 1 s, of which 0.7 was measured, because a suite runs beside others."""
    path = fuzz_safetensors.heavy_file(name, tmp_path)
    result, seconds, megabytes = fuzz_safetensors.CAMPAIGN.alone(path)
    assert result == ("metadata of another type" if name == "fractions" else "opened")
    assert megabytes < MEGABYTES
    assert seconds < 3 * SECONDS

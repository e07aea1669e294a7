"""A sample of `fuzz_onnx.py`: damaged models are refused with a typed error or sound, in little time."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from formats import fuzz_onnx


def test_seeds_are_sound_and_run(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = tmp_path / fuzz_onnx.NAME
    for data in fuzz_onnx.seeds():
        path.write_bytes(data)
        assert fuzz_onnx.attempt(path) == "sound"
        fuzz_onnx.run(path)


@settings(deadline=1000, max_examples=250)
@given(rng=st.randoms(use_true_random=False))
def test_mutations(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        fuzz_onnx.attempt(fuzz_onnx.made(rng, Path(folder)))


def test_truncations(tmp_path: Path) -> None:
    """A shorter file is refused, or sound where only what nobody needs is missing."""
    path = tmp_path / fuzz_onnx.NAME
    whole = fuzz_onnx.seeds()[0]
    for size in range(0, len(whole), 3):
        path.write_bytes(whole[:size])
        fuzz_onnx.attempt(path)

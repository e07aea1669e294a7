from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from assay.formats.gguf import open_gguf
from assay.formats.gguf_writer import write_gguf
from assay.formats.quant import dequantise, quantise
from assay.tensor.dtype import F16, F32, Q4_0, Q4_1, Q8_0
from benchmarks import models

SHAPE = (6, 64)
NAMES = {"blk.0.attn_q.weight": Q4_1, models.EMBEDDING: Q8_0, "output_norm.weight": F32}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file like the catalogue's: a 4-bit matrix, an 8-bit embedding, a vector."""
    rng = np.random.default_rng(0)
    rows = []
    for name, dtype in NAMES.items():
        shape = SHAPE[1:] if dtype == F32 else SHAPE
        rows.append((name, dtype, shape, quantise(rng.standard_normal(shape, np.float32), dtype)))
    path = tmp_path / "source.gguf"
    write_gguf(path, {"general.architecture": "llama", "general.file_type": np.uint32(3)}, rows)
    return path


@pytest.mark.parametrize(
    ("name", "matrix", "embedding"), [("q4_0", Q4_0, Q8_0), ("q8_0", Q8_0, Q8_0), ("f16", F16, F16)]
)
def test_matrices_change_their_format_and_keep_their_values(
    name: str, matrix: object, embedding: object, source: Path, tmp_path: Path
) -> None:
    path = models.prepare(name, source, tmp_path / "bench")
    with open_gguf(source) as before, open_gguf(path) as after:
        found = {key: info.dtype for key, info in after.tensors.items()}
        assert found == dict(zip(NAMES, (matrix, embedding, F32), strict=True))
        assert after.metadata["general.file_type"] == models.FORMATS[name].file_type
        theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(str(path)).tensors}
        for key, info in after.tensors.items():
            old = dequantise(before.raw(key), before.tensor(key).dtype, info.shape)
            new = gguf.quants.dequantize(theirs[key].data, theirs[key].tensor_type).reshape(info.shape)
            # A step: 4 bits have 8 steps to the largest magnitude and lose the last one, 8 bits have 127.
            bound = np.abs(old).max() * (1 / 8 if info.dtype == Q4_0 else 1 / 127)
            assert np.abs(new - old).max() <= bound


def test_a_derived_file_is_written_once(source: Path, tmp_path: Path) -> None:
    path = models.prepare("q8_0", source, tmp_path / "bench")
    before = path.stat().st_mtime_ns
    assert models.prepare("q8_0", source, tmp_path / "bench") == path
    assert path.stat().st_mtime_ns == before


def test_another_source_is_not_answered_from_the_cache(source: Path, tmp_path: Path) -> None:
    path = models.prepare("f16", source, tmp_path / "bench")
    with open_gguf(path) as file:
        rows = [(name, info.dtype, info.shape, file.raw(name)) for name, info in file.tensors.items()]
        write_gguf(source, {"general.architecture": "llama"}, rows[:2])
    models.prepare("f16", source, tmp_path / "bench")
    with open_gguf(path) as file:
        assert len(file.tensors) == 2


def test_bytes_and_elements_are_counted(source: Path) -> None:
    matrix = SHAPE[0] * SHAPE[1]
    assert models.tensor_bytes(source) == matrix // 32 * (20 + 34) + 4 * SHAPE[1]
    assert models.matrix_elements(source) == 2 * matrix

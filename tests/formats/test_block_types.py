"""A block type is one row of a table and its functions: nothing of it is missing, wherever it is needed."""

from __future__ import annotations

import importlib

import gguf
import numpy as np
import pytest

from assay.formats.blocks import CODECS
from assay.formats.gguf_types import GGML_NAMES, SUPPORTED, TENSOR_CODES
from assay.kernels.panels import BLOCK, FORMATS, PANEL, packed_bytes
from assay.ops.weights import BLOCK_TYPES, random_weight
from assay.tensor.dtype import BY_NAME, F16, QUANTISED, DType

every_type = pytest.mark.parametrize("dtype", QUANTISED, ids=str)


def test_the_tables_have_the_same_rows() -> None:
    assert tuple(CODECS) == QUANTISED == BLOCK_TYPES
    assert tuple(FORMATS) == tuple(dtype.name for dtype in QUANTISED)
    assert len(BY_NAME) == len({dtype.name for dtype in BY_NAME.values()})


@every_type
def test_a_block_is_as_large_as_by_gguf(dtype: DType) -> None:
    kind = gguf.GGMLQuantizationType[dtype.name.upper()]
    assert (dtype.block, dtype.size) == gguf.GGML_QUANT_SIZES[kind]
    assert dtype.layout.itemsize == dtype.size and dtype.quantised
    assert TENSOR_CODES[dtype] == kind.value and SUPPORTED[kind.value] is dtype
    assert GGML_NAMES[kind.value] == kind.name


@every_type
@pytest.mark.parametrize("module", ["pack", "qgemm", "gemm", "embedding"])
def test_a_kernel_of_each_kind_is_there(dtype: DType, module: str) -> None:
    assert callable(getattr(importlib.import_module(f"assay.kernels.{module}"), dtype.name))


@every_type
def test_a_record_has_room_for_its_parts(dtype: DType) -> None:
    form = FORMATS[dtype.name]
    assert form.scales * 8 == PANEL * BLOCK * form.bits
    assert form.minimums - form.scales == 2 * PANEL
    assert form.record == (form.minimums + 2 * PANEL if form.minimum else form.minimums)
    assert 0 <= form.offset < 1 << form.bits
    # Packed weights are as large as a file's, but for the rows that fill a panel.
    assert packed_bytes(dtype.name, dtype.size, 33, 64) == 64 * 64 // dtype.block * dtype.size


def test_plain_weights_have_plain_panels() -> None:
    assert packed_bytes(F16.name, F16.size, 33, 5) == 64 * 5 * 2


@every_type
def test_random_weights_have_any_integers_and_small_scales(dtype: DType) -> None:
    blocks = random_weight(np.random.default_rng(3), dtype, 64, 8 * dtype.block).view(dtype.layout)
    for name, kind in dtype.fields:
        field = blocks[name]
        if kind == "<f2":
            assert np.isfinite(field).all() and 0 < np.abs(field.astype(np.float32)).max() < 1
        else:
            assert len(np.unique(field)) == 256

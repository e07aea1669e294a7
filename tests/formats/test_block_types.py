"""A block type is one row of a table and its functions: nothing of it is missing, wherever it is needed."""

from __future__ import annotations

import importlib

import gguf
import numpy as np
import pytest

from assay.formats.gguf_types import GGML_NAMES, SUPPORTED, TENSOR_CODES
from assay.formats.rounding import QUANTISERS
from assay.kernels.panels import BLOCK, FORMATS, PANEL, packed_bytes
from assay.kernels.readers import READERS
from assay.tensor.dtype import BY_NAME, F16, Q2_K, QUANTISED, RARE, DType
from every_op.case import random_weight

every_type = pytest.mark.parametrize("dtype", QUANTISED, ids=str)


def test_the_tables_have_the_same_rows() -> None:
    assert tuple(READERS) == QUANTISED
    assert set(QUANTISERS) <= set(QUANTISED)
    assert tuple(FORMATS) == tuple(dtype.name for dtype in QUANTISED)
    assert len(BY_NAME) == len({dtype.name for dtype in BY_NAME.values()})


@every_type
def test_a_block_is_as_large_as_by_gguf(dtype: DType) -> None:
    kind = gguf.GGMLQuantizationType[dtype.name.upper()]
    assert (dtype.block, dtype.size) == gguf.GGML_QUANT_SIZES[kind]
    assert dtype.layout.itemsize == dtype.size and dtype.quantised
    assert TENSOR_CODES[dtype] == kind.value and SUPPORTED[kind.value] is dtype
    assert GGML_NAMES[kind.value] == kind.name


def test_every_type_that_gguf_dequantises_is_read() -> None:
    for kind in (*gguf.quants._type_traits, gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16):
        dtype = SUPPORTED[kind.value]
        assert (dtype.block, dtype.size) == gguf.GGML_QUANT_SIZES[kind]
        assert (dtype in RARE) == (dtype.kind == "rare") == (dtype.name not in BY_NAME)


@every_type
@pytest.mark.parametrize("module", ["pack", "qgemm", "gemm", "embedding"])
def test_a_kernel_of_each_kind_is_there(dtype: DType, module: str) -> None:
    assert callable(getattr(importlib.import_module(f"assay.kernels.{module}"), dtype.name))


@every_type
def test_a_record_has_room_for_its_parts(dtype: DType) -> None:
    form = FORMATS[dtype.name]
    numbers = PANEL * form.groups * (1 if form.super_block else 2)
    assert form.scales * 8 == PANEL * BLOCK * form.bits
    own, shared = zip(*form.numbers, strict=True)
    assert own == (form.scales, form.scales + numbers)[: 1 + form.minimum]
    assert form.block == own[-1] + numbers
    behind = form.blocks * form.block
    assert shared == ((behind, behind + 2 * PANEL)[: 1 + form.minimum] if form.super_block else own)
    assert form.record == (shared[-1] + 2 * PANEL if form.super_block else behind) == form.pace * form.blocks
    assert 0 <= form.offset < 1 << form.bits or form.codes
    assert len(form.codes) in (0, 1 << form.bits) and all(0 < code < 256 for code in form.unsigned_codes)
    assert form.blocks * BLOCK == dtype.block and form.block % 16 == form.record % 16 == 0
    assert form.super_block == ("scales" in dict(dtype.fields))
    assert form.minimum == bool({"m", "dmin"} & set(dict(dtype.fields)))
    assert ("m" in dict(dtype.fields)) == (form.minimum and not form.super_block)


MOST = {6: 1.04, 4: 1.2}
"""How much larger, by the bits of scales: panels have 8 for them, beside 3 and 6 of integers and more."""


@every_type
def test_packed_weights_are_about_as_large_as_the_files(dtype: DType) -> None:
    """But for the rows that fill a panel."""
    file = 64 * 2 * dtype.size
    packed = packed_bytes(dtype.name, dtype.size, 33, 2 * dtype.block)
    four = dtype is Q2_K
    assert file <= packed <= (MOST[4 if four else 6] if FORMATS[dtype.name].super_block else 1) * file


def test_plain_weights_have_plain_panels() -> None:
    assert packed_bytes(F16.name, F16.size, 33, 5) == 64 * 5 * 2


@every_type
def test_random_weights_have_any_integers_and_small_scales(dtype: DType) -> None:
    blocks = random_weight(np.random.default_rng(3), dtype, 64, 32 * dtype.block).view(dtype.layout)
    for name, kind in dtype.fields:
        field = blocks[name]
        if kind == "<f2":
            assert np.isfinite(field).all() and 0 < np.abs(field.astype(np.float32)).max() < 1
        else:
            assert len(np.unique(np.ascontiguousarray(field).view(np.uint8))) == 256

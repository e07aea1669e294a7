"""Layouts against NumPy's strides, and offsets of all indices against the meaning of each layout."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ContractError
from assay.tensor.layout import Blocked, ColumnMajor, Layout, Packed, RowMajor

SHAPES = st.lists(st.integers(0, 5), max_size=4).map(tuple)
SOLID = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = draw(SHAPES)
    block = tuple(draw(st.integers(1, 4)) for _ in shape)
    packed = Packed.of(shape, draw(st.integers(1, 8)))
    kinds = (RowMajor.of(shape), ColumnMajor.of(shape), Blocked.of(shape, block), packed)
    return draw(st.sampled_from(kinds))


def indices(layout: Layout) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, layout.shape)))


def test_strides_of_the_standard_example() -> None:
    assert RowMajor.of((2, 3, 4)).strides == (12, 4, 1)
    assert ColumnMajor.of((2, 3, 4)).strides == (1, 2, 6)
    assert Blocked.of((4, 6), (2, 3)).strides == (12, 6, 3, 1)
    assert Packed.of((3, 5), 4).strides == (8, 1)


def test_packed_says_how_much_it_pads() -> None:
    layout = Packed.of((3, 5), 4)
    assert (layout.size, layout.count, layout.padding) == (24, 15, 9)
    assert Packed.of((3, 8), 4).padding == 0


def test_blocked_pads_its_edges() -> None:
    layout = Blocked.of((3, 5), (2, 4))
    assert layout.axes == (2, 2, 2, 4)
    assert (layout.size, layout.padding) == (32, 17)
    # Row 2 starts the second row of blocks; column 4 the second block in it.
    assert layout.offset((2, 4)) == 3 * 8
    assert layout.offset((1, 3)) == 7


@given(layouts())
def test_offsets_are_distinct_and_inside(layout: Layout) -> None:
    offsets = [layout.offset(index) for index in indices(layout)]
    assert len(set(offsets)) == layout.count == math.prod(layout.shape)
    assert all(0 <= offset < layout.size for offset in offsets)
    assert layout.padding == layout.size - layout.count >= 0


@given(layouts())
def test_contiguous_means_addresses_ascend_without_a_gap(layout: Layout) -> None:
    offsets = [layout.offset(index) for index in indices(layout)]
    assert layout.contiguous == (offsets == list(range(layout.size)))


@given(SOLID)
def test_strides_agree_with_numpy(shape: tuple[int, ...]) -> None:
    # One-byte elements: NumPy's strides are then in elements.
    assert RowMajor.of(shape).strides == np.empty(shape, np.int8, order="C").strides
    assert ColumnMajor.of(shape).strides == np.empty(shape, np.int8, order="F").strides


@given(SOLID.filter(len), st.integers(1, 8))
def test_packed_agrees_with_numpys_slice_of_a_padded_array(shape: tuple[int, ...], alignment: int) -> None:
    padded = [*shape[:-1], (shape[-1] + alignment - 1) // alignment * alignment]
    layout = Packed.of(shape, alignment)
    assert layout.strides == np.empty(padded, np.int8)[..., : shape[-1]].strides
    assert layout.size == math.prod(padded)


@given(SOLID.filter(len), st.data())
def test_blocked_agrees_with_numpys_reshape_and_transpose(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    block = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    layout = Blocked.of(shape, block)
    grid = [-(-n // b) for n, b in zip(shape, block, strict=True)]
    memory = np.arange(layout.size).reshape(*grid, *block)
    rank = len(shape)
    order = [axis for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for axis in pair]
    logical = memory.transpose(order).reshape([g * b for g, b in zip(grid, block, strict=True)])
    for index in indices(layout):
        assert layout.offset(index) == logical[index]


def test_layouts_are_values() -> None:
    assert RowMajor.of([2, 3]) == RowMajor.of((2, 3))
    assert hash(RowMajor.of((2, 3))) == hash(RowMajor.of((2, 3)))
    assert RowMajor.of((2, 3)) != ColumnMajor.of((2, 3))
    assert Packed.of((2, 3), 4) != Packed.of((2, 3), 8)
    with pytest.raises(AttributeError):
        RowMajor.of((2, 3)).size = 7  # type: ignore[misc]


@pytest.mark.parametrize("index", [(2, 0), (0, -1), (0,), (0, 0, 0)])
def test_an_index_outside_the_shape_is_refused(index: tuple[int, ...]) -> None:
    with pytest.raises(ContractError) as error:
        RowMajor.of((2, 3)).offset(index)
    assert error.value.got == str(index)


def test_bad_layouts_are_refused() -> None:
    for make in (
        lambda: RowMajor.of((2, -1)),
        lambda: Blocked.of((2, 3), (2,)),
        lambda: Blocked.of((2, 3), (2, 0)),
        lambda: Packed.of((2, 3), 0),
        lambda: Layout((2, 3)),
    ):
        with pytest.raises(ContractError):
            make()
    with pytest.raises(TypeError):
        RowMajor.of((2.5,))  # type: ignore[arg-type]

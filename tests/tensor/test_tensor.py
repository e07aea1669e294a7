"""Tensors: views without a copy, strict input from NumPy, DLPack."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import ContractError
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import BF16, BOOL, F16, F32, F64, I8, I32, I64, Q4_1, DType
from assay.tensor.layout import Blocked, ColumnMajor, Layout, Packed, RowMajor
from assay.tensor.pool import Pool
from assay.tensor.tensor import Tensor

PLAIN = (F64, F32, F16, I64, I32, I8, BOOL)


def tensor(dtype: DType, layout: Layout, offset: int = 0) -> Tensor:
    pool = Pool(1 << 20)
    return Tensor(dtype, layout, pool.allocate(offset + dtype.nbytes(layout.size), owner="x"), offset)


@given(
    st.sampled_from(PLAIN),
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from([RowMajor.of, ColumnMajor.of, lambda shape: Packed.of(shape, 4)]),
    st.sampled_from([0, 64]),
)
def test_the_view_puts_each_element_where_the_layout_says(
    dtype: DType, shape: list[int], make: object, offset: int
) -> None:
    layout: Layout = make(shape)  # type: ignore[operator]
    x = tensor(dtype, layout, offset)
    view = x.numpy()
    assert view.shape == x.shape == tuple(shape)
    assert x.address == x.buffer.address + offset
    memory = x.buffer.array(dtype.numpy, (layout.size,), offset=offset)
    for number, index in enumerate(itertools.product(*map(range, shape))):
        view[index] = number % 2
        assert memory[layout.offset(index)] == number % 2


def test_a_blocked_view_has_the_axes_of_grid_and_block() -> None:
    x = tensor(F32, Blocked.of((4, 6), (2, 3)))
    assert x.shape == (4, 6)
    assert x.numpy().shape == (2, 2, 2, 3)
    assert x.strides == (12, 6, 3, 1)
    x.numpy()[1, 0, 0, 2] = 5
    assert x.buffer.array(np.float32, (24,))[x.layout.offset((2, 2))] == 5


def test_quantised_rows_show_as_bytes() -> None:
    x = tensor(Q4_1, RowMajor.of((3, 64)))
    assert x.nbytes == 3 * 2 * 20
    assert (x.numpy().shape, x.numpy().dtype) == ((3, 40), np.uint8)


def test_tensors_that_leave_their_buffer_are_refused() -> None:
    buffer = Pool(1 << 20).allocate(64, owner="w")
    Tensor(F32, RowMajor.of((16,)), buffer)
    for dtype, layout, offset in (
        (F32, RowMajor.of((17,)), 0),
        (F32, RowMajor.of((16,)), 4),
        (F32, Packed.of((2, 5), 16), 0),
        (F32, RowMajor.of((1,)), -4),
        (F32, RowMajor.of((1,)), 2),
        (Q4_1, RowMajor.of((48,)), 0),
        (Q4_1, RowMajor.of(()), 0),
        (Q4_1, ColumnMajor.of((1, 32)), 0),
    ):
        with pytest.raises(ContractError) as error:
            Tensor(dtype, layout, buffer, offset)
        assert error.value.place.startswith("w (")


@pytest.mark.parametrize("dtype", PLAIN)
def test_numpy_goes_in_and_out_without_a_copy(dtype: DType) -> None:
    array = np.zeros((3, 5), dtype.numpy)
    x = Tensor.from_numpy(array, dtype, name="x")
    assert x.address == array.ctypes.data
    assert np.shares_memory(x.numpy(), array)
    x.numpy()[1, 2] = 1
    assert array[1, 2] == 1


def test_a_borrowed_array_lives_as_long_as_its_views() -> None:
    array = np.arange(6, dtype=np.int32)
    view = Tensor.from_numpy(array, I32).numpy()
    del array
    assert view.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_read_only_array_stays_read_only() -> None:
    array = np.arange(6, dtype=np.int32)
    array.flags.writeable = False
    assert not Tensor.from_numpy(array, I32).numpy().flags.writeable


GOOD = np.ones((3, 4), np.float32)
MISALIGNED = np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4)
CALL = "np.ascontiguousarray(mask, dtype=np.float32)"
REFUSED = {
    "float64": (GOOD.astype(np.float64), F32, "float64[3, 4]", CALL),
    "integers": (np.arange(3), F32, "int64[3]", CALL),
    "narrow integers": (
        np.arange(3, dtype=np.int32), I64, "int32[3]", "np.ascontiguousarray(mask, dtype=np.int64)"
    ),
    "bool": (np.arange(3, dtype=np.int8), BOOL, "int8[3]", "np.ascontiguousarray(mask, dtype=np.bool)"),
    "column-major": (
        np.asfortranarray(GOOD), F32, "float32[3, 4] with strides of [4, 12] bytes, not C-contiguous",
        CALL,
    ),
    "a slice": (
        GOOD[:, ::2], F32, "float32[3, 2] with strides of [16, 8] bytes, not C-contiguous",
        CALL,
    ),
    "big-endian": (
        GOOD.astype(">f4"), F32, "byte-swapped float32[3, 4]", CALL
    ),
    "misaligned": (MISALIGNED, F32, "float32[3, 4], misaligned", "mask.copy()"),
    "a scalar array": (np.array(1.0), F32, "float64[]", "np.asarray(mask, dtype=np.float32)"),
    "a list": ([1.0, 2.0], F32, "builtins.list", CALL),
    "a masked array": (
        np.ma.array(GOOD), F32, "MaskedArray of float32[3, 4]", CALL
    ),
    "float32 for bfloat16": (
        GOOD, BF16, "float32[3, 4]", "round to bfloat16, then pass the bits: mask.view(np.uint16)"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_need_a_copy_or_cast_is_refused_with_the_call_that_converts(case: str) -> None:
    array, dtype, got, hint = REFUSED[case]
    with pytest.raises(ContractError) as error:
        Tensor.from_numpy(array, dtype, name="mask")
    assert error.value.place == "mask"
    assert (error.value.got, error.value.hint) == (got, hint)
    assert "C-contiguous" in error.value.want and dtype.name in error.value.want


def test_the_hints_calls_do_convert() -> None:
    for array in (
        GOOD.astype(np.float64),
        np.asfortranarray(GOOD),
        GOOD.astype(">f4"),
        GOOD[:, ::2],
        [1.0, 2.0],
    ):
        Tensor.from_numpy(np.ascontiguousarray(array, dtype=np.float32), F32)
    Tensor.from_numpy(MISALIGNED.copy(), F32)
    assert Tensor.from_numpy(np.asarray(np.array(1.0), dtype=np.float32), F32).shape == ()


def test_the_whole_message() -> None:
    with pytest.raises(ContractError) as error:
        Tensor.from_numpy(np.ones((2, 2)), F32, name="input/ids:0")
    assert str(error.value) == (
        "input/ids:0: an input would need a silent copy or cast\n"
        "  wanted a NumPy array of float32, C-contiguous\n"
        "  got    float64[2, 2]\n"
        "  hint   np.ascontiguousarray(x, dtype=np.float32)"
    )


def test_quantised_input_is_refused() -> None:
    with pytest.raises(ContractError, match="quantised"):
        Tensor.from_numpy(np.zeros((2, 20), np.uint8), Q4_1)


def test_a_buffer_over_memory_with_gaps_is_refused() -> None:
    with pytest.raises(ContractError, match="gaps"):
        Buffer.over(GOOD[:, ::2], "x")


def test_dlpack_shares_memory_and_keeps_it_alive() -> None:
    pool = Pool(1 << 20)
    x = Tensor(F32, ColumnMajor.of((2, 3)), pool.allocate(24, owner="x"))
    x.numpy()[:] = [[1, 2, 3], [4, 5, 6]]
    shared = np.from_dlpack(x)
    shared[0, 0] = 9
    assert x.numpy().tolist() == [[9, 2, 3], [4, 5, 6]]
    assert x.__dlpack_device__() == (1, 0)
    del x
    assert pool.figures.used == 64
    assert shared.tolist() == [[9, 2, 3], [4, 5, 6]]
    del shared
    assert pool.figures.used == 0


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [(BF16, RowMajor.of((2,))), (Q4_1, RowMajor.of((32,))), (F32, Blocked.of((4,), (2,)))],
)
def test_dlpack_refuses_what_it_cannot_carry(dtype: DType, layout: Layout) -> None:
    with pytest.raises(BufferError):
        np.from_dlpack(tensor(dtype, layout))

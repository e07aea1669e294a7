from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from assay.kernels import conv_sizes
from kernels.chains import Array, perform, scratch
from kernels.test_conv import Case, Ints, columns

CASES = [
    Case(2, 3, 1, 1, (9, 21), (3, 3), (2, 2), (1, 1), (1, 1)),
    Case(1, 2, 1, 1, (30, 40), (2, 5), (1, 1), (1, 2), (1, 2)),
    Case(1, 2, 1, 1, (5, 6, 7), (3, 2, 3), (2, 1, 3), (1, 1, 2), (1, 0, 2)),
    Case(2, 2, 1, 1, (70,), (4,), (3,), (1,), (2,)),
    Case(1, 4, 1, 1, (7, 5), (1, 1), (1, 1), (1, 1), (0, 0)),
    Case(1, 2, 1, 1, (7, 5), (7, 5), (1, 1), (1, 1), (0, 0)),
]


def draw(case: Case, dtype: str = "float32") -> Array:
    generator = np.random.default_rng(0)
    # Few different numbers, so that the greatest is often there twice.
    shape = case.batch, case.groups, *case.size
    return generator.integers(-5, 5, shape).astype(dtype) / np.dtype(dtype).type(3)


def run(name: str, case: Case, x: Array, output: Ints, threads: int, counted: tuple[Ints, ...] = ()) -> Array:
    window = conv_sizes.window(case.batch, case.groups, 1, case.space(output), counted, x.itemsize)
    y = np.full((case.batch, case.groups, *output), 77, x.dtype)
    name += "_f64" if x.itemsize == 8 else ""
    perform(threads, (f"window.{name}", x, 0, 0, y, *scratch(window.scratch, threads), *window.words))
    return y


def places(case: Case, x: Array, y: Array, turned: int) -> Array:
    window = conv_sizes.window(case.batch, case.groups, 1, case.space(y.shape[2:]))
    found = np.full(y.shape, 77, np.int64)
    name = "window.places" + ("_f64" if x.itemsize == 8 else "")
    perform(2, (name, x, y, found, turned, *window.words))
    return found


def runtime(operator: str, case: Case, x: Array, **attributes: int) -> list[Array]:
    """By ONNX Runtime."""
    names = ["y", "places"] if operator == "MaxPool" else ["y"]
    settings = {"strides": case.strides, "dilations": case.dilations, "pads": case.pads * 2}
    node = helper.make_node(operator, ["x"], names, kernel_shape=case.window, **settings, **attributes)
    values = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph(
        [node],
        "one",
        [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)],
        values,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, {"x": x})]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_greatest_and_its_first_place_agree_with_onnx_runtime(case: Case) -> None:
    x, output = draw(case), case.output()
    for turned in (0, 1):
        want, where = runtime("MaxPool", case, x, storage_order=turned)
        for threads in (1, 2, 3):
            got = run("greatest", case, x, output, threads)
            np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(places(case, x, got, turned), where)


def test_nan_is_the_greatest_and_infinities_have_a_place() -> None:
    case = CASES[1]
    x, output = np.full((1, 2, *case.size), -np.inf, np.float32), case.output()
    got = run("greatest", case, x, output, 1)
    assert (got == -np.inf).all() and (places(case, x, got, 0) >= 0).all()
    x[0, 0, 7, 9] = np.nan
    got = run("greatest", case, x, output, 1)
    assert set(places(case, x, got, 0)[np.isnan(got)]) == {7 * 40 + 9}
    assert np.isnan(got).sum() == 2 * 5


@pytest.mark.parametrize("case", CASES, ids=str)
def test_sums_add_taps_in_order_and_averages_divide_by_those_that_count(case: Case) -> None:
    x, output = draw(case), case.output()
    total, count = np.zeros((case.batch, case.groups, *output), np.float32), np.zeros(output, np.float32)
    inside = columns(case._replace(batch=1, groups=1), np.ones((1, 1, *case.size)), output)
    for tap, each in columns(case, x, output).items():
        total = total + each[:, :, 0]
        count += inside[tap][0, 0, 0].astype(np.float32)
    np.testing.assert_array_equal(run("total", case, x, output, 1), total)
    own = tuple((0, size) for size in case.size)
    padded = tuple((-p, size + p) for p, size in zip(case.pads, case.size, strict=True))
    for threads in (1, 2, 3):
        got = run("total", case, x, output, threads, own)
        np.testing.assert_array_equal(got, total / count)
    all_taps = np.float32(np.prod(case.window))
    got = run("total", case, x, output, 2, padded)
    np.testing.assert_array_equal(got, total / all_taps)
    # Both round each of their sums, and the quotient.
    bound = 2 * (all_taps + 2) * 2.0**-24 * 2
    for include, ours in ((0, total / count), (1, got)):
        want = runtime("AveragePool", case, x, count_include_pad=include)[0]
        assert (abs(ours.astype(float) - want) <= bound).all()


def test_a_window_that_ends_behind_the_padding_counts_what_is_in_it() -> None:
    case = Case(1, 1, 1, 1, (4, 4), (3, 3), (2, 2), (1, 1), (1, 1))
    x = draw(case)
    got = run("total", case, x, (3, 3), 1, ((-1, 5), (-1, 5)))
    padded = np.pad(x[0, 0], ((1, 1), (1, 1)))
    for row in range(3):
        for column in range(3):
            part = padded[2 * row : 2 * row + 3, 2 * column : 2 * column + 3]
            assert abs(got[0, 0, row, column] - part.astype(float).mean()) <= 20 * 2.0**-24


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float64_keeps_its_digits(case: Case) -> None:
    x, output = draw(case, "float64"), case.output()
    got = run("greatest", case, x, output, 2)
    want, where = runtime("MaxPool", case, x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(places(case, x, got, 0), where)
    total = sum(each[:, :, 0] for each in columns(case, x, output).values())
    np.testing.assert_array_equal(run("total", case, x, output, 2), total)
    got = run("total", case, x, output, 2, tuple((-1000, 1000) for _ in output))
    np.testing.assert_array_equal(got, total / np.prod(case.window))

from __future__ import annotations

from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from assay.kernels import conv_sizes
from kernels.chains import Array, chain, perform, scratch, whole

Ints = tuple[int, ...]


class Case(NamedTuple):
    """Attributes of a Conv or a ConvTranspose: batch, groups, channels and filters of a group, and so on."""

    batch: int
    groups: int
    channels: int
    filters: int
    size: Ints
    window: Ints
    strides: Ints
    dilations: Ints
    pads: Ints
    more: Ints = ()

    def space(self, output: Ints) -> conv_sizes.Spatial:
        return conv_sizes.Spatial(*self[4:9], output)

    def output(self) -> Ints:
        found = []
        for n, k, s, d, p in zip(*self[4:9], strict=True):
            found.append((n + 2 * p - d * (k - 1) - 1) // s + 1)
        return tuple(found)

    def transposed_output(self) -> Ints:
        found = []
        for n, k, s, d, p, more in zip(*self[4:9], self.more or [0] * 3, strict=False):
            found.append(s * (n - 1) + more + d * (k - 1) + 1 - 2 * p)
        return tuple(found)


CONVOLUTIONS = [
    Case(1, 1, 3, 8, (17, 70), (3, 3), (2, 2), (1, 1), (1, 1)),
    Case(2, 1, 20, 13, (9, 41), (3, 3), (1, 1), (1, 1), (1, 1)),
    Case(2, 1, 300, 16, (10, 10), (1, 1), (1, 1), (1, 1), (0, 0)),
    Case(1, 2, 4, 3, (12, 50), (5, 3), (1, 3), (2, 1), (3, 2)),
    Case(1, 1, 33, 50, (90,), (9,), (2,), (1,), (4,)),
    Case(1, 2, 3, 2, (5, 6, 7), (3, 2, 3), (1, 2, 1), (1, 1, 2), (1, 0, 2)),
    Case(2, 1, 17, 40, (1, 1), (1, 1), (1, 1), (1, 1), (0, 0)),
    Case(1, 4, 1, 1, (6, 40), (3, 3), (1, 1), (1, 1), (1, 1)),
]
DEPTHWISE = [
    Case(2, 3, 1, 2, (9, 21), (5, 3), (2, 2), (1, 1), (2, 1)),
    Case(1, 5, 1, 1, (40, 40), (3, 5), (1, 1), (2, 3), (2, 6)),
    Case(1, 2, 1, 1, (5, 6, 7), (3, 2, 3), (2, 1, 3), (1, 2, 1), (1, 0, 2)),
    Case(1, 1, 1, 1, (3000,), (7,), (2,), (1,), (3,)),
]
TRANSPOSED = [
    Case(1, 1, 3, 8, (7, 23), (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    Case(2, 2, 2, 3, (7, 8), (2, 2), (2, 2), (1, 1), (0, 0)),
    Case(1, 1, 20, 5, (30,), (4,), (3,), (2,), (1,), (2,)),
    Case(1, 1, 2, 3, (3, 4, 5), (2, 3, 3), (1, 2, 4), (1, 1, 1), (0, 1, 0), (0, 1, 3)),
    Case(1, 1, 2, 1, (6, 4), (1, 1), (2, 2), (1, 1), (0, 0)),
]


def operands(case: Case, dtype: str, transposed: bool = False) -> tuple[Array, Array, Array]:
    generator = np.random.default_rng(0)
    inner = (case.groups * case.channels, case.filters)
    outer = (case.groups * case.filters, case.channels)
    weights = whole(generator, dtype, (*(inner if transposed else outer), *case.window))
    x = whole(generator, dtype, (case.batch, case.groups * case.channels, *case.size))
    return x, weights, whole(generator, dtype, (case.groups * case.filters,))


def run(
    calls: tuple[conv_sizes.Convolution, ...], x: Array, w: Array, b: Array | None, output: Ints, threads: int
) -> Array:
    """By the kernels."""
    filters, bits = calls[0].words[3], 8 * x.itemsize
    y = np.full((x.shape[0], calls[0].words[1] * filters, *output), 77, x.dtype)
    arranged = np.full(calls[-1].end, 77, w.dtype)
    space = scratch(conv_sizes.scratch(filters, x.itemsize), threads)
    bias = 0 if b is None else b
    for each in calls:
        perform(threads, (f"conv.arrange{bits}", w, arranged, *each.arranged))
    perform(threads, *((f"conv.{x.dtype}", x, arranged, bias, y, *space, *each.words) for each in calls))
    return y


def columns(case: Case, x: Array, output: Ints) -> dict[Ints, Array]:
    """For each tap what it reads, [batch, groups, channels, *output]: zeros in the padding."""
    reach = [
        d * (k - 1) + s * o
        for k, s, d, o in zip(case.window, case.strides, case.dilations, output, strict=True)
    ]
    sides = [(p, max(0, r - n)) for p, r, n in zip(case.pads, reach, case.size, strict=True)]
    padded = np.pad(x, [(0, 0), (0, 0), *sides])
    found = {}
    for tap in product(*map(range, case.window)):
        cut = [
            slice(d * t, d * t + s * o, s)
            for d, t, s, o in zip(case.dilations, tap, case.strides, output, strict=True)
        ]
        found[tap] = padded[:, :, *cut].reshape(case.batch, case.groups, case.channels, *output)
    return found


def terms(case: Case, x: Array, w: Array, output: Ints) -> list[tuple[Array, Array]]:
    """Rule 10's order: blocks of 16 channels, taps, channels. Each broadcasts to [batch, groups, filters,
    *output].
    """
    read, many = columns(case, x, output), (1,) * len(output)
    weights = w.reshape(case.groups, case.filters, case.channels, *case.window)
    return [
        (
            read[tap][:, :, None, channel],
            weights[:, :, channel, *tap].reshape(case.groups, case.filters, *many),
        )
        for block in range(0, case.channels, 16)
        for tap in product(*map(range, case.window))
        for channel in range(block, min(block + 16, case.channels))
    ]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_a_convolution_is_one_chain_in_order_and_then_the_bias(case: Case) -> None:
    x, w, b = operands(case, "float32")
    output = case.output()
    shape = case.batch, case.groups, case.filters, *output
    want = chain(terms(case, x, w, output), np.zeros(shape, np.float32)).reshape(case.batch, -1, *output)
    calls = (conv_sizes.convolution(*case[:4], case.space(output)),)
    np.testing.assert_array_equal(run(calls, x, w, None, output, 1), want)
    biased = want + b.reshape(-1, *[1] * len(output))
    for threads in (1, 2, 3):
        np.testing.assert_array_equal(run(calls, x, w, b, output, threads), biased)


def runtime(operator: str, case: Case, x: Array, w: Array, b: Array, **attributes: Ints) -> Array:
    """By ONNX Runtime."""
    names = ["x", "w", "b"]
    settings = {
        "strides": case.strides,
        "dilations": case.dilations,
        "pads": case.pads * 2,
        "group": case.groups,
    }
    node = helper.make_node(operator, names, ["y"], **settings, **attributes)
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, each.shape)
        for name, each in zip(names, (x, w, b), strict=True)
    ]
    graph = helper.make_graph(
        [node], "one", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x, "w": w, "b": b})[0])


def close(case: Case, got: Array, want: Array, magnitudes: Array) -> None:
    """Within what the roundings of both may be: each of at most 2⁻²⁴ of the terms' magnitudes."""
    roundings = 2 * (case.channels * np.prod(case.window) + 1)
    assert got.shape == want.shape
    assert (abs(got.astype(float) - want) <= roundings * 2.0**-24 * magnitudes).all()


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_agree_with_onnx_runtime(case: Case) -> None:
    x, w, b = operands(case, "float32")
    output = case.output()
    got = run((conv_sizes.convolution(*case[:4], case.space(output)),), x, w, b, output, 2)
    close(case, got, runtime("Conv", case, x, w, b), runtime("Conv", case, abs(x), abs(w), abs(b)))


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_transposed_convolutions_agree_with_onnx_runtime(case: Case) -> None:
    x, w, b = operands(case, "float32", transposed=True)
    output = case.transposed_output()
    calls = conv_sizes.transposed(*case[:4], case.space(output))
    more = {"output_padding": case.more} if case.more else {}
    want, magnitudes = (
        runtime("ConvTranspose", case, *each, **more) for each in ((x, w, b), map(abs, (x, w, b)))
    )
    got = [run(calls, x, w, b, output, threads) for threads in (1, 2, 3)]
    close(case, got[0], want, magnitudes)
    np.testing.assert_array_equal(got[0], got[1])
    np.testing.assert_array_equal(got[0], got[2])


def test_a_transposed_convolution_is_the_gradient_of_one_with_taps_in_order() -> None:
    """Its chain: blocks of 16 channels, taps as in the window, channels, of those that hit the output."""
    case = Case(1, 1, 18, 2, (4, 3), (3, 2), (2, 1), (1, 2), (1, 0))
    x, w, _ = operands(case, "float32", transposed=True)
    rows, width = output = case.transposed_output()
    want = np.zeros((1, 2, *output), np.float32)
    for oy, ox in product(range(rows), range(width)):
        line = []
        for block, ky, kx in product((range(16), range(16, 18)), range(3), range(2)):
            iy, ix = oy + 1 - ky, ox - 2 * kx
            if iy % 2 == 0:
                inside = 0 <= iy // 2 < 4 and 0 <= ix < 3
                line += [(w[c, :, ky, kx], x[0, c, iy // 2, ix] if inside else np.float32(0)) for c in block]
        want[0, :, oy, ox] = chain(line, np.zeros(2, np.float32))
    np.testing.assert_array_equal(
        run(conv_sizes.transposed(*case[:4], case.space(output)), x, w, None, output, 2), want
    )


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("case", CONVOLUTIONS[:6], ids=str)
def test_integers_wrap_and_float64_has_its_precision(dtype: str, case: Case) -> None:
    x, w, b = operands(case, dtype)
    output = case.output()
    got = run((conv_sizes.convolution(*case[:4], case.space(output)),), x, w, b, output, 2)
    each = terms(case, x, w, output)
    want = sum(left * right for left, right in each).reshape(got.shape) + b.reshape(-1, *[1] * len(output))
    if dtype == "int32":
        np.testing.assert_array_equal(got, want)
    else:
        magnitudes = sum(abs(left * right) for left, right in each).reshape(got.shape) + abs(b).max()
        assert (abs(got - want) <= 2 * (len(each) + 1) * 2.0**-53 * magnitudes).all()


@pytest.mark.parametrize(
    "case", [case for case in (*CONVOLUTIONS, *DEPTHWISE) if case.channels == 1], ids=str
)
def test_the_kernel_of_single_channels_gives_the_same_bits(case: Case) -> None:
    x, w, b = operands(case, "float32")
    output = case.output()
    space = case.space(output)
    want = run((conv_sizes.convolution(*case[:4], space),), x, w, b, output, 1)
    window = conv_sizes.window(case.batch, case.groups, case.filters, space)
    for threads in (1, 3):
        y = np.full(want.shape, 77, np.float32)
        perform(threads, ("window.depthwise", x, w, b, y, *scratch(window.scratch, threads), *window.words))
        np.testing.assert_array_equal(y, want)


def special(generator: np.random.Generator, dtype: str, shape: Ints, rate: float) -> Array:
    """Small integers, of which all sums are exact; of such a rate infinities and NaN."""
    found = generator.integers(-4, 5, shape).astype(dtype)
    chosen = generator.choice(np.array([np.inf, -np.inf, np.nan], dtype), shape)
    return np.where(generator.random(shape) < rate, chosen, found)


PADDED = [*CONVOLUTIONS[:2], *CONVOLUTIONS[3:6], *DEPTHWISE[:3]]


@pytest.mark.parametrize("case", PADDED, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_taps_in_the_padding_add_nothing_whatever_the_weights(case: Case, dtype: str) -> None:
    """NaN or infinite weights reach the outputs that read something by them, and no others."""
    generator, output = np.random.default_rng(1), case.output()
    x = generator.integers(-4, 5, (case.batch, case.groups * case.channels, *case.size)).astype(dtype)
    sizes = case.channels, *case.window
    w = special(generator, dtype, (case.groups * case.filters, *sizes), 1 / prod(sizes))
    b = generator.integers(-4, 5, len(w)).astype(dtype)
    pairs = zip(terms(case, x, w, output), terms(case, np.ones_like(x), w, output), strict=True)
    with np.errstate(invalid="ignore"):
        want = sum(np.where(inside != 0, read * weights, 0) for (read, weights), (inside, _) in pairs)
        want = want.reshape(case.batch, -1, *output) + b.reshape(-1, *[1] * len(output))
    assert np.isnan(want).any() and not np.isnan(want).all()
    space = case.space(output)
    calls = (conv_sizes.convolution(*case[:4], space),)
    found = [run(calls, x, w, b, output, threads) for threads in (1, 2)]
    if case.channels == 1 and dtype == "float32":
        window = conv_sizes.window(case.batch, case.groups, case.filters, space)
        found.append(np.full_like(found[0], 77))
        place = scratch(window.scratch, 2)
        perform(2, ("window.depthwise", x, w, b, found[-1], *place, *window.words))
    for each in found:
        np.testing.assert_array_equal(each, want)


@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_transposed_weights_reach_what_an_element_of_x_hits(case: Case) -> None:
    generator, output = np.random.default_rng(1), case.transposed_output()
    x = special(generator, "float32", (case.batch, case.groups * case.channels, *case.size), 1 / 40)
    w = special(generator, "float32", (case.groups * case.channels, case.filters, *case.window), 1 / 10)
    want = np.zeros((case.batch, case.groups * case.filters, *output), np.float32)
    with np.errstate(invalid="ignore"):
        for channel, place, tap in product(range(x.shape[1]), np.ndindex(case.size), np.ndindex(case.window)):
            steps = zip(place, tap, *case[6:9], strict=True)
            at = tuple(s * i + d * k - p for i, k, s, d, p in steps)
            if all(0 <= i < n for i, n in zip(at, output, strict=True)):
                first = channel // case.channels * case.filters
                terms = x[:, channel, *place][:, None] * w[channel, :, *tap]
                want[:, first : first + case.filters, *at] += terms
    calls = conv_sizes.transposed(*case[:4], case.space(output))
    np.testing.assert_array_equal(run(calls, x, w, None, output, 2), want)


def test_without_taps_only_the_bias_is_left() -> None:
    case = Case(1, 1, 2, 3, (4,), (1,), (3,), (1,), (0,), (2,))
    x, w, b = operands(case, "float32", transposed=True)
    output = case.transposed_output()
    calls = conv_sizes.transposed(*case[:4], case.space(output))
    for bias, want in ((b, b), (None, np.zeros_like(b))):
        got = run(calls, x, w, bias, output, 2)
        np.testing.assert_array_equal(got[0, :, 1::3], np.repeat(want[:, None], 4, axis=1))

"""Where ONNX Runtime doesn't do what the standard says, or it says nothing: such cases aren't run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from differential.draw import Array, Call, Known


class Deviation(NamedTuple):
    """Cases of some operators that aren't held against each other, and why."""

    operators: str
    reason: str
    applies: Callable[[Call], bool]
    last: int = 1 << 30
    """The last version of the operator for which it holds."""


def arrays(call: Call) -> Sequence[Array | None]:
    """A call's inputs."""
    return [each.array if isinstance(each, Known) else each for each in call.inputs]


def with_nan(call: Call) -> bool:
    return any(
        each is not None and each.dtype.kind == "f" and bool(np.isnan(each).any()) for each in arrays(call)
    )


def empty(call: Call) -> bool:
    return any(each is not None and each.size == 0 for each in arrays(call)[:1])


def some_empty(call: Call) -> bool:
    return any(each is not None and each.size == 0 for each in arrays(call))


def stacks_of_none(call: Call) -> bool:
    count, condition, *carried = arrays(call)
    none = (count is not None and not count) or (condition is not None and not condition)
    return bool(none) and call.outputs > len(carried)


def infinite_weights(call: Call) -> bool:
    found = arrays(call)[1]
    return found is not None and not np.isfinite(found).all()


def padded(call: Call) -> bool:
    same = str(call.attributes.get("auto_pad", "")).startswith("SAME")
    return same or any(call.attributes.get("pads", ()))


def infinite_at_the_edge(call: Call) -> bool:
    return padded(call) and infinite_weights(call)


def window_of(call: Call) -> Sequence[int]:
    kernel = arrays(call)[1].shape[2:] if len(call.inputs) > 1 else call.attributes["kernel_shape"]
    return tuple(kernel)


def strides_beyond(call: Call) -> bool:
    """Strides larger than the window, where the output's size is given or the input's times the strides."""
    pairs = zip(call.attributes.get("strides", ()), window_of(call), strict=False)
    same = str(call.attributes.get("auto_pad", "")).startswith("SAME")
    wanted = same or "output_shape" in call.attributes
    return wanted and any(stride > size for stride, size in pairs)


def window_beyond(call: Call) -> bool:
    """A window that doesn't fit into the input with its padding."""
    x, attributes = arrays(call)[0], call.attributes
    pads, kernel = attributes.get("pads", (0,) * 6), window_of(call)
    spread = attributes.get("dilations", (1,) * len(kernel))
    same = str(attributes.get("auto_pad", "")).startswith("SAME")
    reach = [step * (many - 1) + 1 for many, step in zip(kernel, spread, strict=True)]
    sides = zip(x.shape[2:], pads, pads[len(kernel) :], reach, strict=False)
    return not same and any(size + low + high < span for size, low, high, span in sides)


def inverse_double(call: Call) -> bool:
    return doubles(call) and bool(call.attributes.get("inverse"))


def doubles(call: Call) -> bool:
    return any(each is not None and each.dtype == np.float64 for each in arrays(call))


def infinite_double(call: Call) -> bool:
    return doubles(call) and infinite(call)


def far_backwards(call: Call) -> bool:
    """An end far beyond the last element where a slice's step is negative."""
    given = [None if each is None else each.tolist() for each in arrays(call)]
    if len(given) < 5:
        return False
    pairs = zip(given[2], given[4], strict=True)
    return any(step < 0 and end >= (1 << 31) - 1 for end, step in pairs)


def half_with_nan(call: Call) -> bool:
    return with_nan(call) and any(each is not None and each.dtype == np.float16 for each in arrays(call))


def infinite(call: Call) -> bool:
    return any(each is not None and each.dtype.kind == "f" and np.isinf(each).any() for each in arrays(call))


def between_corners(call: Call) -> bool:
    """Corners aligned, where a size times its scale isn't whole."""
    if call.attributes.get("coordinate_transformation_mode") != "align_corners" or len(call.inputs) > 3:
        return False
    x, scales = arrays(call)[0], arrays(call)[-1]
    assert x is not None and scales is not None
    return bool(np.any(np.asarray(x.shape) * scales.astype(np.float64) % 1))


def whole_numbers(call: Call) -> bool:
    return any(each is not None and each.dtype.kind in "iu" for each in arrays(call))


def same_dilated(call: Call) -> bool:
    same = str(call.attributes.get("auto_pad", "")).startswith("SAME")
    return same and any(each > 1 for each in call.attributes.get("dilations", ()))


def beyond_float32(call: Call) -> bool:
    def beyond(array: Array) -> bool:
        whole = array.dtype.kind in "iu" and array.size and int(abs(array.astype(float)).max()) > 1 << 24
        return bool(whole) or array.dtype == np.float64

    return any(each is not None and beyond(each) for each in arrays(call))


def cubic_at_border(call: Call) -> bool:
    return call.attributes.get("mode") in ("cubic", "bicubic") and call.attributes["padding_mode"] == "border"


DEVIATIONS = (
    Deviation(
        "GridSample", "ONNX Runtime moves a cubic's place to the border, the standard each pixel it reads",
        cubic_at_border,
    ),
    Deviation("MaxPool GlobalMaxPool", "ONNX Runtime finds nothing below the finite numbers", infinite),
    Deviation("Sign", "ONNX Runtime's sign of NaN is 0 in float16 alone", half_with_nan),
    Deviation(
        "Resize",
        "the standard's cases take the product of size and scale as it is, unrounded",
        between_corners,
    ),
    Deviation("ReduceLogSumExp", "ONNX Runtime computes e^x in integers", whole_numbers),
    Deviation("LRN", "ONNX Runtime's running sum keeps an infinity that left the window", infinite),
    Deviation(
        "Clip", "a bound that is left out: ONNX Runtime's is the greatest finite number, the standard's "
        "function has none", infinite,
    ),
    Deviation(
        "MaxPool AveragePool LpPool", "for ONNX Runtime's SAME no window is dilated", same_dilated
    ),
    Deviation(
        "Shrink", "ONNX Runtime adds the bias in float32, also to float64 and integers", beyond_float32
    ),
    Deviation("Slice", "backwards ONNX Runtime takes the greatest integer for the start", far_backwards),
    Deviation(
        "ArgMax ArgMin ReduceMax ReduceMin ReduceLogSumExp MaxPool GlobalMaxPool Hardmax Softmax LogSoftmax",
        "ONNX Runtime's comparisons pass over NaN, or not, by its place; ours keep it, as NumPy does",
        with_nan,
    ),
    Deviation("ReduceMean", "no elements have no mean: ONNX Runtime has 0, NumPy and ours NaN", empty),
    Deviation("Unique", "an empty input ends ONNX Runtime's process", empty),
    Deviation("Loop", "after no turns the sizes of a stack of outputs are anyone's guess", stacks_of_none),
    Deviation("Scan", "inputs without elements end ONNX Runtime's process", some_empty),
    Deviation(
        "Conv", "ONNX Runtime multiplies what pads with weights, 0 · ∞ too; ours adds nothing there",
        infinite_at_the_edge,
    ),
    Deviation(
        "Conv MaxPool AveragePool LpPool",
        "a window that fits nowhere is a violation; for ONNX Runtime there is none, or one: −1 / 2 is 0",
        window_beyond,
    ),
    Deviation("DFT", "ONNX Runtime divides float64 by a float32", inverse_double),
    Deviation("LogSoftmax", "ONNX Runtime's ∞ − ∞ is −∞ in float64", infinite_double),
    Deviation(
        "LpPool MaxPool AveragePool ConvTranspose",
        "of less than no padding, for strides beyond the window, ONNX Runtime has its own idea",
        strides_beyond,
    ),
)  # fmt: skip


def deviation(op: str, version: int, call: Call) -> str:
    """Why a call isn't held against ONNX Runtime; empty for one that is."""
    known = (each for each in DEVIATIONS if op in each.operators.split() and version <= each.last)
    return next((each.reason for each in known if each.applies(call)), "")

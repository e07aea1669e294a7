"""The chain kernel: views against NumPy's strides, chains against their operations one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from assay.graph.graph import ValueType
from assay.kernels.cache import addresses
from assay.kernels.call import call
from assay.kernels.sizes import CHAIN_SCRATCH
from assay.ops import chain
from assay.ops.chain import Operand, view
from assay.ops.operator import Address, Argument, Code, Scratch
from assay.tensor.dtype import F32

Array = NDArray[np.generic]
Sizes = tuple[int, ...]
SIZES = (np.uint8, np.uint16, np.uint32, np.uint64, np.complex128)


def run(arguments: tuple[Argument, ...], places: dict[str, int], threads: int = 2) -> None:
    """The kernel on memory, one thread after the other."""
    scratch = np.full(CHAIN_SCRATCH * threads, 0xFF, np.uint8)
    words: list[int | float] = []
    for argument in arguments:
        if isinstance(argument, Address):
            words.append(places[argument.name])
        elif isinstance(argument, Code):
            words.append(addresses([argument.kernel])[argument.kernel])
        elif isinstance(argument, Scratch):
            words += [scratch.ctypes.data, CHAIN_SCRATCH]
        else:
            words.append(argument if isinstance(argument, int | float) else argument.at({}))
    for thread in range(threads):
        call("elementwise.chain", *words, tid=thread, nthreads=threads)


def memory(draw: st.DrawFn, shape: Sizes, dtype: type, fill: int, repeats: bool) -> tuple[Array, Array]:
    """An array of its own memory, and a view of `shape` into it: axes in any order, cut, with steps,
    reversed; repeated along some axes if it may.
    """
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 1, 2, -1, -3))) for _ in shape]
    once = [repeats and draw(st.booleans()) for _ in shape]
    kept = [1 if alone else extent for alone, extent in zip(once, shape, strict=True)]
    whole = [abs(step) * extent + draw(st.integers(0, 2)) for step, extent in zip(steps, kept, strict=True)]
    base = (np.arange(fill, fill + np.prod(whole)) * 0x1E3779B97F4A7 >> 20).astype(dtype)
    found = base.reshape([whole[axis] for axis in order]).transpose(np.argsort(order))
    cuts = tuple(slice(None, None, step) for step in steps)
    found = found[cuts][tuple(slice(0, extent) for extent in kept)]
    return base, np.broadcast_to(found, shape) if repeats else found


def operand(name: str, array: Array, base: Array) -> Operand:
    first = array.__array_interface__["data"][0] - base.ctypes.data
    return Operand(name, array.itemsize, view(array.itemsize, array.shape, array.strides, first))


@settings(max_examples=80, deadline=None)
@given(st.data(), st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from(SIZES))
def test_copies_go_from_any_strides_to_any(data: st.DataObject, extents: list[int], dtype: type) -> None:
    extents[data.draw(st.integers(0, len(extents) - 1))] *= data.draw(st.sampled_from((1, 1, 40)))
    shape = tuple(extents)
    base, source = memory(data.draw, shape, dtype, 5, repeats=True)
    other, target = memory(data.draw, shape, dtype, 999, repeats=False)
    words = chain.copied(operand("x", source, base), operand("y", target, other), target.size)
    before = other.copy()
    run(words, {"x": base.ctypes.data, "y": other.ctypes.data})
    found = other.copy()
    other[...] = before
    target[...] = source
    assert np.array_equal(found, other)


SHAPES = (
    ((3, 1, 300), (5, 1)),
    ((), (2, 7)),
    ((700,), (3, 700)),
    ((4, 6, 33), (6, 1)),
    ((2, 1, 4, 1), (3, 1, 5)),
)


def test_operands_are_repeated_as_numpy_repeats_them() -> None:
    rng = np.random.default_rng(1)
    for shapes in SHAPES:
        a, b = (rng.normal(0, 1, shape).astype(np.float32) for shape in shapes)
        y = np.full(np.broadcast_shapes(*shapes), 9, np.float32)
        kinds = [ValueType.of(F32, *each.shape) for each in (a, b, y)]
        link = chain.pointwise("add", [("a", kinds[0]), ("b", kinds[1])], ("y", kinds[2]))
        places = {name: each.ctypes.data for name, each in zip("aby", (a, b, y), strict=True)}
        run(chain.arguments(y.size, 1, [link]), places, threads=3)
        assert np.array_equal(y, a + b), shapes


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 6), st.integers(1, 700))
def test_a_chain_is_its_operations_after_each_other(data: st.DataObject, length: int, count: int) -> None:
    """Each link reads the one before it, and a source, a row that is repeated, or a number."""
    rng = np.random.default_rng(count)
    arrays = {f"x{number}": rng.normal(0, 1, (2, count)).astype(np.float32) for number in range(4)}
    arrays["row"] = rng.normal(0, 1, (1, count)).astype(np.float32)
    kinds = {name: ValueType.of(F32, *array.shape) for name, array in arrays.items()}
    y, links, last = np.full((2, count), 9, np.float32), [], "x0"
    whole = ValueType.of(F32, 2, count)
    for index in range(length):
        other = data.draw(st.sampled_from((*arrays, "number")))
        stem = data.draw(st.sampled_from(("add", "mul")))
        makes = f"y{index}" if index < length - 1 else "y"
        reads = [(name, kinds.get(name, whole)) for name in (last, other) if name != "number"]
        numbers = [0.3] if other == "number" else []
        links.append(chain.pointwise(stem, reads, (makes, whole), numbers))
        value = arrays[last], np.float32(0.3) if other == "number" else arrays[other]
        arrays[makes], last = (value[0] + value[1] if stem == "add" else value[0] * value[1]), makes
    places = {name: array.ctypes.data for name, array in arrays.items() if name != "y"}
    run(chain.arguments(2, count, links), {**places, "y": y.ctypes.data})
    assert np.array_equal(y, arrays["y"])

"""The ONNX project's own cases, module by module: to import all of them takes half a minute."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from assay.formats.onnx_file import from_proto
from assay.runtime.model import Model

STEPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
"""Of one number to the next: what is rounded again and again may be two away from what others round."""
Array = NDArray[np.generic]
ROOT = "onnx.backend.test.case.node"
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


@dataclass(frozen=True)
class Case:
    """A model, and sets of inputs and outputs."""

    name: str
    model: onnx.ModelProto
    data: Sequence[tuple[Sequence[object], Sequence[object]]]
    rtol: float
    atol: float


def modules() -> list[str]:
    """The modules of node cases."""
    path = list(importlib.import_module(ROOT).__path__)
    found = [each.name for each in pkgutil.walk_packages(path, ROOT + ".") if not each.ispkg]
    return sorted(name.removeprefix(ROOT + ".") for name in found)


@cache
def node_cases(module: str) -> tuple[Case, ...]:
    """The cases that a module defines."""
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = {id(case) for case in node._NodeTestCases}
        importlib.import_module(f"{ROOT}.{module}")
    new = [case for case in node._NodeTestCases if id(case) not in before]
    return tuple(Case(c.name, c.model, c.data_sets, c.rtol, c.atol) for c in new)


def folder_cases(kind: str) -> Iterator[tuple[str, Path]]:
    """The cases that lie in folders: name and folder."""
    folders = (DATA / kind).iterdir()
    yield from sorted((path.name, path) for path in folders if (path / "model.onnx").exists())


def folder_case(path: Path) -> Case:
    """The case in a folder."""
    model = onnx.load(path / "model.onnx")
    data = []
    for each in sorted(path.glob("test_data_set_*")):
        sets = []
        for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
            files = sorted(each.glob(f"{kind}_*.pb"), key=lambda file: int(file.stem.rpartition("_")[2]))
            sets.append([_value(file, info) for file, info in zip(files, infos, strict=False)])
        data.append((sets[0], sets[1]))
    return Case(path.name, model, data, 1e-3, 1e-7)


def light_cases() -> Iterator[Case]:
    """Well-known convolutional models with constant weights, on the project's own made-up input."""
    for path in sorted((DATA / "light").glob("*.onnx")):
        model = onnx.load(path)
        inputs = [spec.shape for spec in Model(from_proto(model), 1).inputs]
        (sizes,) = [[size for size in shape or () if isinstance(size, int)] for shape in inputs]
        count = int(np.prod(sizes))
        x = (np.arange(count).reshape(sizes) / count).astype(np.float32)
        raw = path.with_name(f"{path.stem}_output_0.pb").read_bytes()
        y = numpy_helper.to_array(onnx.TensorProto.FromString(raw))
        yield Case(path.stem, model, [([x], [y])], 1e-3, 1e-7)


def _value(path: Path, info: onnx.ValueInfoProto) -> object:
    raw = path.read_bytes()
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def run(case: Case, threads: int = 2) -> None:
    """Run a case. Raises AssertionError where an output isn't what it should be."""
    model = Model(from_proto(case.model), threads)
    for inputs, outputs in case.data:
        names = [spec.name for spec in model.inputs]
        given = {name: outside(value) for name, value in zip(names, inputs, strict=True)}
        found = model.run(given)
        for spec, want in zip(model.outputs, outputs, strict=True):
            got = found[spec.name]
            if case.name.startswith("test_cast"):
                got, want = _defined(np.asarray(outside(inputs[0])), got, outside(want))
            check(spec.name, got, want, case.rtol, case.atol)


def _defined(x: Array, got: object, want: object) -> tuple[object, object]:
    """Both without what the standard leaves undefined: a float outside the range of an integer of few bits.
    What is expected there is what the package ml_dtypes gave, another thing in each version.
    """
    few = isinstance(want, np.ndarray) and want.dtype.name in ("int4", "uint4", "int2", "uint2")
    if not few or not isinstance(got, np.ndarray) or x.dtype.kind not in "fV" or got.shape != x.shape:
        return got, want
    bounds, whole = ml_dtypes.iinfo(want.dtype), np.trunc(x.astype(np.float64))
    inside = (whole >= bounds.min) & (whole <= bounds.max)
    assert inside.any()
    return got[inside], want[inside]


def opened(case: Case, what: str) -> onnx.ModelProto:
    """The model without the sizes, or the ranks, of its inputs and outputs. With "sizes but lists", lists of
    integers are constants instead of inputs.
    """
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for info, value in zip(case.model.graph.input, case.data[0][0], strict=False):
        whole = isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim < 2
        if what == "sizes but lists" and whole:
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.input.remove(info)
    for number, info in enumerate([*model.graph.input, *model.graph.output]):
        if not info.type.HasField("tensor_type"):
            continue
        if what == "ranks" or number >= len(model.graph.input):
            info.type.tensor_type.ClearField("shape")
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = f"size{number}_{axis}"
    return model


def outside(value: object) -> object:
    if isinstance(value, list | tuple):
        return [outside(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        return (
            array.astype(object)
            if array.dtype.kind in "US"
            else np.ascontiguousarray(array).reshape(array.shape)
        )
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value


def check(name: str, got: object, want: object, rtol: float, atol: float) -> None:
    """Compare an output: type, shape, elements."""
    want = outside(want)
    if isinstance(want, list):
        assert isinstance(got, list) and len(got) == len(want), f"{name}: {got!r:.200}, not {want!r:.200}"
        for ours, theirs in zip(got, want, strict=True):
            check(name, ours, theirs, rtol, atol)
        return
    if want is None or isinstance(want, dict):
        assert got == want, name
        return
    assert isinstance(got, np.ndarray) and isinstance(want, np.ndarray), f"{name}: {type(got)}"
    assert got.dtype == want.dtype, f"{name}: {got.dtype}, not {want.dtype}"
    assert got.shape == want.shape, f"{name}: {got.shape}, not {want.shape}"
    if want.dtype == object:
        texts = [each.decode() if isinstance(each, bytes) else each for each in want.flat]
        assert list(got.flat) == texts, name
    elif want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=name)
    else:
        if want.dtype.name in STEPS:
            rtol = max(rtol, 2 * STEPS[want.dtype.name])
        wide = np.complex128 if want.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=rtol, atol=atol, err_msg=name)

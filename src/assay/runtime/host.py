"""Nodes that the host runs: in NumPy, by their reference, or by the standard's own evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError, HardwareFault
from assay.graph.graph import AttributeValue, ValueType
from assay.ops.resolution import line_of, place_of
from assay.ops.standard.definition import outputs_of
from assay.ops.standard.function import exported
from assay.ops.standard.schema import DEFAULT, ML, newest, split_name
from assay.ops.standard.site import Site
from assay.tensor.dtype import MAP, OPTIONAL, SEQUENCE
from assay.tensor.narrow import canonical, dtype_of, numpy_of

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

Value = object
"""A value as callers know it: an array, a list of arrays for a sequence, None for an empty optional, a dict
for a map.
"""
Array = NDArray[np.generic]
Run = Callable[[Sequence[Value]], list[Value]]


def run_node(site: Site, inputs: Sequence[Value], bodies: Mapping[str, Run]) -> tuple[Value, ...]:
    """The outputs of a node. Raises ContractError where its inputs' values break the contract."""
    definition = site.definition
    try:
        with np.errstate(all="ignore"):
            if definition.reference is None:
                found: object = _delegated(site, inputs)
            else:
                more: dict[str, object] = {"bodies": bodies} if bodies else {}
                more |= {"site": site} if definition.informed else {}
                given = definition.given_to_reference(inputs)
                found = definition.reference(*given, **site.attributes, **more)
    except MemoryError as error:
        want, place = "room for its outputs", place_of(site.node)
        raise HardwareFault("memory gave out", place=place, want=want, got=f"{error}"[:300]) from error
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:
        rule, want = "the node can't be computed", "inputs that keep its contract"
        place = line_of(site.node)
        raise ContractError(rule, place=place, want=want, got=f"{error}"[:300]) from error
    made = tuple(_sound(value) for value in outputs_of(found))
    for value, kind in zip(made, site.outputs, strict=False):
        if isinstance(value, np.ndarray) and kind and not kind.element and not _keeps(value, kind):
            rule, place = "the operator's reference breaks its own contract", line_of(site.node)
            got, hint = f"{value.dtype}{list(value.shape)}", "mend its reference or its rule"
            raise ContractError(rule, place=place, want=str(kind), got=got, hint=hint)
    return made


def _keeps(value: Array, kind: ValueType) -> bool:
    """Whether an array is of that type, as far as its sizes are known."""
    sizes = tuple(dim.constant for dim in kind.shape)
    fits = len(sizes) == value.ndim and all(a in (None, b) for a, b in zip(sizes, value.shape, strict=True))
    return dtype_of(value.dtype) == kind.dtype and (fits or not kind.ranked)


def _sound(value: Value) -> Value:
    """A result as callers know it: NumPy's scalars are arrays, views are copied, all NaN are one."""
    if isinstance(value, list):
        return [_sound(each) for each in value]
    arrays = isinstance(value, np.generic | np.ndarray)
    return canonical(np.asarray(value, order="C")) if arrays else value


def _delegated(site: Site, inputs: Sequence[Value]) -> tuple[Value, ...]:
    if split_name(site.node.op)[0] == ML and isinstance(inputs[0], np.ndarray) and inputs[0].ndim == 1:
        inputs = [inputs[0].reshape(1, -1), *inputs[1:]]  # as it wants a row
    names = tuple(f"x{index}" if value is not None else "" for index, value in enumerate(inputs))
    attributes = tuple(site.node.attributes.items())
    evaluator = _evaluator(site.node.op, names, len(site.node.outputs), attributes)
    found = evaluator.run(None, {name: value for name, value in zip(names, inputs, strict=True) if name})
    return tuple(_typed(value, kind) for value, kind in zip(found, site.outputs, strict=True))


def _typed(value: object, kind: ValueType | None) -> object:
    """A result of the type that the schema has, where the evaluator doesn't keep to it."""
    right = kind and not kind.element and isinstance(value, np.ndarray | np.generic)
    return np.asarray(value).astype(numpy_of(kind.dtype)) if kind and right else value


@lru_cache(maxsize=256)
def _evaluator(
    op: str, names: tuple[str, ...], outputs: int, attributes: tuple[tuple[str, AttributeValue], ...]
) -> ReferenceEvaluator:
    """The standard's evaluator for a model of one node."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    results = [f"y{index}" for index in range(outputs)]
    node = exported(op, names, results, dict(attributes))
    value = helper.make_value_info
    empty = helper.make_tensor_type_proto(1, None)
    graph = helper.make_graph(
        [node],
        "node",
        [value(name, empty) for name in names if name],
        [value(name, empty) for name in results],
    )
    opsets = [helper.make_opsetid(each, newest(each or DEFAULT)) for each in {node.domain: 0, "": 0}]
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=opsets))


def finite(value: Value) -> bool:
    """Whether all numbers in a value are finite; strings and what isn't there count as such."""
    if isinstance(value, list):
        return all(map(finite, value))
    if not isinstance(value, np.ndarray) or value.dtype.kind in "biuOUSM":
        return True
    with np.errstate(invalid="ignore"):
        return bool(np.isfinite(value).all())


def type_of(value: Value, declared: ValueType | None = None) -> ValueType:
    """The type of a value as callers give it; what an empty one would hold is as declared."""
    if isinstance(value, np.ndarray):
        dtype = dtype_of(value.dtype)
        if dtype is None:
            raise ContractError("unknown element type", want="a type of ONNX", got=str(value.dtype))
        kind = ValueType.of(dtype, *value.shape)
        return ValueType(OPTIONAL, (), kind) if declared and declared.dtype is OPTIONAL else kind
    if isinstance(value, list) and value:
        kinds = [type_of(each) for each in value]
        alike = kinds[0] if len(set(kinds)) == 1 else ValueType.of(kinds[0].dtype, "...")
        kind = ValueType(SEQUENCE, (), alike)
        return ValueType(OPTIONAL, (), kind) if declared and declared.dtype is OPTIONAL else kind
    if isinstance(value, dict) and value:
        key, held = next(iter(value.items()))
        return ValueType(MAP, (), ValueType(type_of(np.asarray([key])).dtype, (), type_of(np.asarray(held))))
    if declared is None:
        raise ContractError("a value whose type can't be told", want="an array", got=type(value).__name__)
    return declared

"""Inputs such as a model may get, to prepare it with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from assay.errors import ContractError, HardwareFault, RequestError, shown
from assay.graph.graph import ValueType
from assay.graph.text import quote
from assay.runtime.host import Value
from assay.tensor.narrow import numpy_of

OPEN = 64
"""A size that neither the model nor an example says."""


def example_inputs(
    types: Mapping[str, ValueType], batch: int, example: Mapping[str, Value]
) -> dict[str, Value]:
    """Zeros for the inputs, or what the example has, cut or repeated to the batch.

    Raises RequestError for a batch below 1, ContractError for an input that needs an example.
    """
    if not isinstance(batch, int) or batch < 1:
        raise RequestError("no such batch", place="batch", want="1 or more", got=shown(batch))
    rows = _rows(types)
    binding = {symbol: OPEN for kind in types.values() for symbol in kind.symbols}
    for name, value in example.items():
        if name in types and isinstance(value, np.ndarray):
            pairs = zip(types[name].shape, value.shape, strict=False)
            binding |= {dim.symbol: size for dim, size in pairs if dim.symbol}
    binding |= dict.fromkeys(rows, batch)
    made: dict[str, Value] = {name: value for name, value in example.items() if name not in types}
    for name, kind in types.items():
        made[name] = _input(name, kind, binding, rows, example.get(name))
    return made


def _rows(types: Mapping[str, ValueType]) -> set[str]:
    """The symbols that count the batch; those of sizes without a name begin with an underscore."""
    symbols = ([dim.symbol for dim in kind.shape if dim.symbol] for kind in types.values() if kind.ranked)
    firsts = [each[0] for each in symbols if each]
    return {symbol for symbol in firsts if symbol == firsts[0] or symbol.startswith("_")}


def _input(
    name: str, kind: ValueType, binding: Mapping[str, int], rows: set[str], given: Value | None
) -> Value:
    if isinstance(given, np.ndarray):
        for axis, dim in enumerate(kind.shape):
            if dim.symbol in rows and axis < given.ndim and given.shape[axis]:
                picked = np.arange(binding[dim.symbol]) % given.shape[axis]
                given = np.ascontiguousarray(np.take(given, picked, axis))
        return given
    if given is not None:
        return given
    if kind.element or not kind.ranked:
        place = f"input {quote(name)}"
        raise ContractError("an example is needed", place=place, want=str(kind), got="none", hint="example=")
    sizes = [dim.at(binding) for dim in kind.shape]
    if kind.dtype.kind == "string":
        return np.full(sizes, "", object)
    try:
        return np.zeros(sizes, numpy_of(kind.dtype))
    except (ValueError, MemoryError) as error:
        rule, place = "an input that memory can't hold", f"input {quote(name)}"
        raise HardwareFault(rule, place=place, want="sizes for this machine", got=str(kind)) from error

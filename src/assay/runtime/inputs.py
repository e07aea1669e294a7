"""What a graph is given, held against the types that it wants; and what it gives, apart from that."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError, misnamed, shown
from assay.graph.graph import ValueType
from assay.graph.text import quote
from assay.runtime.host import Value
from assay.tensor.dtype import OPTIONAL, SEQUENCE
from assay.tensor.narrow import dtype_of, numpy_of

Array = NDArray[np.generic]
Symbols = dict[str, tuple[int, str]]
"""The size that each symbol has, and whose it was."""


def admit(types: Mapping[str, ValueType], graph: str, inputs: Mapping[str, Value]) -> None:
    """Hold inputs against the types that a graph wants. Raises ContractError."""
    known = ", ".join(types) or "none"
    if not isinstance(inputs, Mapping):
        rule, got = "inputs by name are wanted", type(inputs).__name__
        raise ContractError(rule, place=graph, want=known, got=got, hint="run({name: array})")
    if inputs.keys() != types.keys():
        raise misnamed("inputs", types, inputs).at(graph)
    symbols: Symbols = {}
    for name, want in types.items():
        _admit(name, inputs[name], want, symbols, f"{graph} › input {quote(name)}")


def _admit(name: str, value: Value, want: ValueType, symbols: Symbols, place: str) -> None:
    """Raises ContractError for a value that doesn't fit an input, or an element of it."""
    element = want.element
    if element is None:
        _admit_array(name, value, want, symbols, place)
    elif want.dtype is OPTIONAL:
        if value is not None:
            _admit(name, value, element, symbols, place)
    else:
        kind = list if want.dtype is SEQUENCE else dict
        if not isinstance(value, kind):
            raise ContractError(
                f"not a {kind.__name__}", place=place, want=str(want), got=type(value).__name__
            )
        for index, each in enumerate(value if kind is list else ()):
            _admit(f"{name}[{index}]", each, element, {}, f"{place} › [{index}]")


def _admit_array(name: str, value: Value, want: ValueType, symbols: Symbols, place: str) -> None:
    outer = numpy_of(want.dtype).type
    dtype = f"{'np' if outer.__module__ == 'numpy' else outer.__module__}.{outer.__name__}"
    if not isinstance(value, np.ndarray):
        got, hint = type(value).__name__, f'{{"{name}": np.asarray(value, {dtype})}}'
        raise ContractError("not an array", place=place, want=str(want), got=got, hint=hint)
    got = f"{value.dtype.str if value.dtype.isbuiltin == 1 else value.dtype}{list(value.shape)}"
    if isinstance(value, np.ma.MaskedArray):
        hint = f"{name}.filled(…)"
        raise ContractError("a masked array", place=place, want=str(want), got=got, hint=hint)
    kind = dtype_of(value.dtype) if value.dtype.kind not in "US" else None
    if kind != want.dtype:
        got = f"{kind}{list(value.shape)}" if kind else got
        hint = f"np.ascontiguousarray({name}, dtype={dtype})"
        raise ContractError("wrong dtype", place=place, want=str(want), got=got, hint=hint)
    if not value.flags.c_contiguous:
        got, hint = f"strides {value.strides} of {list(value.shape)}", f"np.ascontiguousarray({name})"
        raise ContractError("not contiguous in C's order", place=place, want=str(want), got=got, hint=hint)
    if value.dtype.hasobject:
        for each in value.flat:
            if not isinstance(each, str):
                raise ContractError("not a text", place=place, want="elements of type str", got=shown(each))
    _admit_shape(value.shape, want, symbols, place, quote(name))


def _admit_shape(shape: tuple[int, ...], want: ValueType, symbols: Symbols, place: str, name: str) -> None:
    if not want.ranked:
        return
    fits = len(shape) == len(want.shape)
    for dim, size in zip(want.shape, shape, strict=False):
        fits = fits and dim.constant in (None, size)
        if fits and dim.symbol:
            first, whose = symbols.setdefault(dim.symbol, (size, name))
            if first != size:
                want_text, got = f"{dim} = {first}, as in {whose}", f"{size} in {want.dtype}{list(shape)}"
                raise ContractError("sizes disagree", place=place, want=want_text, got=got)
    if not fits:
        raise ContractError("wrong shape", place=place, want=str(want), got=f"{want.dtype}{list(shape)}")


def apart(outputs: Mapping[str, Value], inputs: Mapping[str, Value]) -> dict[str, Value]:
    """Outputs in memory that is neither an input's, nor a constant's, nor another output's."""
    taken = set[int]()
    for value in inputs.values():
        _own(value, taken, copy=False)
    return {name: _own(value, taken) for name, value in outputs.items()}


def _own(value: Value, taken: set[int], copy: bool = True) -> Value:
    """A value, copied where its memory is `taken` or isn't to be written; now it is."""
    if isinstance(value, list):
        return [_own(each, taken, copy) for each in value]
    if not isinstance(value, np.ndarray):
        return value
    root = value
    while isinstance(root.base, np.ndarray):
        root = root.base
    if copy and (id(root) in taken or not value.flags.writeable):
        return value.copy()
    taken.add(id(root))
    return value

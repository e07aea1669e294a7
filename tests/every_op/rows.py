"""Parts of a case that must give the same bits as they do inside the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from assay.graph.graph import ValueType
from assay.ops.operator import Array, Operator
from assay.ops.pattern import REST, parse
from every_op.case import Case

FEW = 5
"""Parts that are tried of each case."""


@dataclass(frozen=True)
class Part:
    """A case of its own, and the rows of the whole case's outputs that it must equal."""

    case: Case
    begin: int
    end: int


Splitter = Callable[[Operator, Case], Iterator[Part]]


def row_name(operator: Operator) -> str | None:
    """The name that is every output's first axis, and of inputs the first axis or none; "..." is one."""
    if operator.in_place:
        return None
    patterns = {port.name: parse(port.dims) for port in (*operator.inputs, *operator.outputs)}
    outputs = [patterns[port.name] for port in operator.outputs]
    if all(pattern.rest for pattern in patterns.values()):
        return REST
    names = {pattern.axes[0].name if pattern.axes and not pattern.rest else "" for pattern in outputs}
    if len(names) != 1 or not (name := names.pop()):
        return None
    for pattern in patterns.values():
        if any(name in axis.dim.symbols for axis in pattern.axes[1:]):
            return None
        if pattern.axes and name in pattern.axes[0].dim.symbols and pattern.axes[0].name != name:
            return None
    return name


def by_rows(operator: Operator, case: Case) -> Iterator[Part]:
    """Some rows alone, and a stretch of several."""
    name = row_name(operator)
    assert name is not None
    leading = [
        name == REST or (bool(axes) and axes[0].name == name)
        for axes in (parse(port.dims).axes for port in operator.inputs)
    ]
    count = next(len(array) for array, first in zip(case.inputs, leading, strict=True) if first)
    rng = np.random.default_rng(count)
    starts = sorted({0, count - 1, *rng.integers(0, count, FEW - 2).tolist()})
    stretches = [(start, start + 1) for start in starts] + [(count // 3, count - count // 4)]
    for begin, end in stretches:
        if end <= begin:
            continue
        inputs = tuple(
            np.ascontiguousarray(array[begin:end]) if first else array
            for array, first in zip(case.inputs, leading, strict=True)
        )
        types = tuple(
            ValueType.of(kind.dtype, end - begin, *kind.shape[1:]) if first else kind
            for kind, first in zip(case.types, leading, strict=True)
        )
        yield Part(replace(case, inputs=inputs, types=types), begin, end)


def by_queries(operator: Operator, case: Case) -> Iterator[Part]:
    """Attention: stretches of one sequence's queries alone, as if the prompt had been cut there."""
    q, keys, values, spans, pasts, table = case.inputs
    rng = np.random.default_rng(len(q))
    for sequence in range(len(pasts)):
        first, last = int(spans[sequence]), int(spans[sequence + 1])
        stretches = {(first, first + 1), (last - 1, last), (first, last)}
        if not case.attributes.get("causal", True):
            stretches = {(first, last)}  # each query sees all of them
        for _ in range(FEW - 2 if len(stretches) > 1 else 0):
            begin, end = sorted(rng.integers(first, last + 1, 2).tolist())
            stretches.add((begin, end))
        for begin, end in sorted(stretches):
            if begin < end:
                past = np.array([pasts[sequence] + begin - first], np.int32)
                alone = np.array([0, end - begin], np.int32)
                inputs: tuple[Array, ...] = (
                    np.ascontiguousarray(q[begin:end]), keys, values, alone, past,
                    table[sequence : sequence + 1],
                )  # fmt: skip
                types = tuple(
                    ValueType.of(kind.dtype, *array.shape)
                    for kind, array in zip(case.types, inputs, strict=True)
                )
                yield Part(replace(case, inputs=inputs, types=types), begin, end)


def by_askers(operator: Operator, case: Case) -> Iterator[Part]:
    """Adjusted logits: each row alone, with its entries."""
    logits, asking, allowed, spans, *entries, penalties = case.inputs
    for row in range(len(asking)):
        first, end, only = int(spans[row]), int(spans[row + 1]), slice(row, row + 1)
        alone = np.array([0, end - first], np.int32)
        own = (np.ascontiguousarray(array[first:end]) for array in entries)
        inputs = logits, asking[only], allowed[only], alone, *own, penalties[only]
        types = tuple(
            ValueType.of(kind.dtype, *array.shape) for kind, array in zip(case.types, inputs, strict=True)
        )
        yield Part(replace(case, inputs=inputs, types=types), row, row + 1)


SPLITTERS: dict[str, Splitter] = {"attention": by_queries, "adjust": by_askers}
"""Operators whose batch is described by other inputs."""
SEQUENTIAL = {"cache_write": ("k", "v", "slots")}
"""Operators that change a state: the rows of these inputs may be written one after another."""


def splitter(operator: Operator) -> Splitter | None:
    """How the operator's cases are cut into parts; None when its rows depend on each other."""
    if operator.name in SPLITTERS:
        return SPLITTERS[operator.name]
    return by_rows if row_name(operator) else None

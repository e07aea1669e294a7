"""Operators that run graphs: the host decides, the bodies run as programs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.standard.registry import define
from assay.ops.standard.site import UNKNOWN, UNRANKED, Array, Made, Site
from assay.tensor.dtype import BOOL, I64
from assay.tensor.narrow import numpy_of

Run = Callable[[Sequence[object]], list[object]]


def common(left: ValueType | None, right: ValueType | None) -> ValueType:
    """What two types have in common; sizes that differ are left open."""
    if left is None or right is None or left.dtype != right.dtype:
        return UNKNOWN
    if left.element and right.element:
        return replace(left, element=common(left.element, right.element))
    if len(left.shape) != len(right.shape):
        return replace(left, shape=UNRANKED)
    pairs = enumerate(zip(left.shape, right.shape, strict=True))
    return replace(left, shape=tuple(a if a == b else Dim.of(f"_either_{axis}") for axis, (a, b) in pairs))


def _if(site: Site) -> Sequence[Made]:
    site.value(0)
    one, other = (site.infer_body(key, ()) for key in ("then_branch", "else_branch"))
    count = len(site.node.outputs)
    for key, made in (("then_branch", one), ("else_branch", other)):
        site.require(len(made) == count, f"outputs of {key}", want=f"{count}", got=len(made))
    for a, b in zip(one, other, strict=False):
        if a and b and UNKNOWN not in (a, b) and a.dtype != b.dtype:
            site.refuse("types of the branches differ", want=f"{a}, of then_branch", got=b)
    return [common(a, b) for a, b in zip(one, other, strict=False)]


def _run_if(cond: Array, bodies: Mapping[str, Run], **attributes: object) -> tuple[object, ...]:
    if cond.size != 1:
        raise ValueError(f"a condition of {cond.size} elements")
    return tuple(bodies["then_branch" if cond.reshape(-1)[0] else "else_branch"]([]))


define(
    "If", _if, formula="outputs = cond ? then_branch() : else_branch()",
    shapes="Those of the branches; where they differ, sizes are left open.", reference=_run_if, unranked=True,
)  # fmt: skip


def _loop(site: Site) -> Sequence[Made]:
    carried = [site.types[index] for index in range(2, len(site.types))]
    body = site.body("body")
    count = len(carried)
    want = f"{count + 2}: iteration, condition, {count} carried"
    site.require(len(body.inputs) == count + 2, "inputs of body", want=want, got=len(body.inputs))
    scans = len(site.node.outputs) - count
    want = f"{len(site.node.outputs) + 1}: condition, {count} carried, {scans} collected"
    site.require(
        len(body.outputs) == len(site.node.outputs) + 1, "outputs of body", want=want, got=len(body.outputs)
    )
    if site.problems:
        return []
    kinds: list[ValueType | None] = list(carried)
    for _ in range(3):
        made = site.infer_body("body", [ValueType.of(I64), ValueType.of(BOOL), *kinds])
        for before, after in zip(kinds, made[1 : count + 1], strict=True):
            if before and after and UNKNOWN not in (before, after) and before.dtype != after.dtype:
                site.refuse("a carried value changes its type", want=str(before), got=after)
                return []
        again: list[ValueType | None] = [
            common(before, after) for before, after in zip(kinds, made[1 : count + 1], strict=True)
        ]
        if again == kinds:
            break
        kinds = again
    collected = [
        replace(kind, shape=(site.unknown("trips"), *kind.shape))
        if kind and kind.ranked and not kind.element
        else None
        for kind in made[count + 1 :]
    ]
    return [*kinds, *collected]


MOST_TRIPS = 1 << 31
"""Iterations of the longest loop that is run."""


def _run_loop(
    M: Array | None,
    cond: Array | None,
    *carried: object,
    bodies: Mapping[str, Run],
    site: Site,
    **attributes: object,
) -> tuple[object, ...]:
    trips = MOST_TRIPS if M is None else int(M.reshape(-1)[0])
    if trips > MOST_TRIPS:
        raise ValueError(f"a loop of {trips} iterations; at most {MOST_TRIPS}")
    going = cond is None or bool(cond.reshape(-1)[0])
    values, rows, trip = list(carried), list[list[object]](), 0
    while going and trip < trips:
        found = bodies["body"]([np.array(trip, np.int64), np.array(going), *values])
        going = bool(np.asarray(found[0]).reshape(-1)[0])
        values = found[1 : len(carried) + 1]
        rows.append(found[len(carried) + 1 :])
        trip += 1
    kinds = site.outputs[len(carried) :]
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return (*values, *(stacked(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def stacked(column: Sequence[object], kind: ValueType | None) -> Array:
    """What iterations collected, in front of each other; of none, an array of none."""
    if column:
        return np.stack([np.asarray(each) for each in column])
    assert kind is not None
    return np.empty((0, *(dim.constant or 0 for dim in kind.shape[1:])), numpy_of(kind.dtype))


define(
    "Loop", _loop, formula="repeat body(i, cond, v) while i < M and cond",
    shapes="Carried values keep theirs; collected ones get the number of iterations in front.",
    reference=_run_loop, unranked=True, informed=True,
)  # fmt: skip

"""Operators that run graphs: the host decides, the bodies run as programs of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from assay.errors import SchedulingDeadlock
from assay.graph.dim import Dim
from assay.graph.graph import Graph, Literal, ValueType
from assay.graph.text import quote
from assay.ops.standard.registry import define
from assay.ops.standard.site import UNKNOWN, UNRANKED, Array, Made, Site
from assay.tensor.dtype import BOOL, I64, OPTIONAL
from assay.tensor.narrow import numpy_of

Run = Callable[[Sequence[object]], list[object]]


def common(site: Site, left: ValueType | None, right: ValueType | None, label: str) -> ValueType:
    """What two types have in common; sizes that differ are left open, and named by `label`."""
    if left and right and left.dtype is OPTIONAL and left.element == right:
        return left
    if left is None or right is None or left.dtype != right.dtype:
        return UNKNOWN
    if left.element and right.element:
        return replace(left, element=common(site, left.element, right.element, label))
    if len(left.shape) != len(right.shape):
        return replace(left, shape=UNRANKED)
    pairs = enumerate(zip(left.shape, right.shape, strict=True))
    shape = tuple(a if a == b else site.unknown(f"{label}_{axis}") for axis, (a, b) in pairs)
    return replace(left, shape=shape)


def differ(left: ValueType | None, right: ValueType | None) -> bool:
    """Whether two types are known to be of different elements."""
    if left is None or right is None or UNKNOWN in (left, right) or left.dtype is OPTIONAL:
        return False
    both = left.element and right.element
    return left.dtype != right.dtype or bool(both and differ(left.element, right.element))


def _if(site: Site) -> Sequence[Made]:
    site.value(0)
    one, other = (site.infer_body(key, ()) for key in ("then_branch", "else_branch"))
    count = len(site.node.outputs)
    for key, made in (("then_branch", one), ("else_branch", other)):
        site.require(len(made) == count, f"outputs of {key}", want=f"{count}", got=len(made))
    for a, b in zip(one, other, strict=False):
        site.require(not differ(a, b), "types of the branches differ", want=f"{a}, of then_branch", got=b)
    pairs = enumerate(zip(one, other, strict=False))
    return [common(site, a, b, f"either_{number}") for number, (a, b) in pairs]


def _run_if(cond: Array, bodies: Mapping[str, Run], **attributes: object) -> tuple[object, ...]:
    if cond.size != 1:
        raise ValueError(f"a condition of {cond.size} elements")
    return tuple(bodies["then_branch" if cond.reshape(-1)[0] else "else_branch"]([]))


define(
    "If", _if, formula="outputs = cond ? then_branch() : else_branch()",
    shapes="Those of the branches; where they differ, sizes are left open.", reference=_run_if, unranked=True,
)  # fmt: skip


Types = Sequence[ValueType | None]


def arity(site: Site, inputs: int, outputs: int, what: str) -> bool:
    """Hold the body to its numbers of inputs and outputs."""
    for name, given, want in (
        ("inputs", site.body("body").inputs, inputs), ("outputs", site.body("body").outputs, outputs),
    ):  # fmt: skip
        site.require(len(given) == want, f"{name} of body", want=f"{want}: {what}", got=len(given))
    return not site.problems


def _settled(site: Site, front: Types, carried: Types, back: Types = ()) -> tuple[Types, Types]:
    """The types of carried values that hold in every iteration, and those that the body makes of them."""
    kinds, made = list(carried), ()  # type: tuple[Types, Types]
    for _ in range(3):
        made = site.infer_body("body", [*front, *kinds, *back])
        again = [
            common(site, before, after, f"carried_{number}")
            for number, (before, after) in enumerate(zip(kinds, made, strict=False))
        ]
        for before, after in zip(kinds, made, strict=False):
            same = not differ(before, after)
            site.require(same, "a carried value changes its type", want=str(before), got=after)
        if again == kinds or site.problems:
            break
        kinds = again
    last = [before if before and after and before.dtype == after.dtype else UNKNOWN
            for before, after in zip(kinds, made, strict=False)]  # fmt: skip
    return last, made[len(kinds) :]


def _collected(site: Site, made: Types, count: Dim, axes: Sequence[int] = ()) -> list[ValueType | None]:
    """The types of what iterations make, behind each other along a new axis, by default the first."""
    found: list[ValueType | None] = []
    for number, kind in enumerate(made):
        if kind is None or kind.element or not kind.ranked:
            site.require(
                kind is None or not kind.element, "a collected value is no tensor", want="a tensor", got=kind
            )
            found.append(kind)
            continue
        rank = len(kind.shape) + 1
        axis = site.axis(axes[number] if axes else 0, rank, "attribute scan_output_axes", kind)
        if axis is not None:
            found.append(replace(kind, shape=(*kind.shape[:axis], count, *kind.shape[axis:])))
    return found


MOST_TRIPS = 1 << 24
"""Iterations of the longest loop that nothing but their number ends, those of the loops around it counted."""
ENDLESS = "a loop without a sensible end"
CONDITION = f"at most {MOST_TRIPS} iterations, or a condition that the body decides"


def _counted(site: Site) -> bool:
    """Whether nothing but the number of iterations ends a loop: its body hands on the condition as it is, or
    a constant that is true.
    """
    body: Graph = site.body("body")
    makers = {name: node for node in body.nodes for name in node.outputs}
    name = body.outputs[0]
    while name in makers:
        maker = makers.pop(name)
        if maker.op == "Constant":
            return any(isinstance(each, Literal) and each.array().all() for each in maker.attributes.values())
        name = maker.inputs[0] if maker.op == "Identity" and maker.inputs else ""
    return name == body.inputs[1]


def _loop(site: Site) -> Sequence[Made]:
    carried = site.types[2:]
    for index in (0, 1):
        site.single(index)
    what = "condition, carried, collected; and iteration, condition, carried for inputs"
    if not arity(site, len(carried) + 2, len(site.node.outputs) + 1, what):
        return []
    trips = site.peek(0)
    if trips is not None and trips.dtype != object and _counted(site):
        site.trips *= max(int(trips.reshape(-1)[0]), 1)
        if site.trips > MOST_TRIPS:
            got = f"{trips} iterations, {site.trips} with those of the loops around it"
            site.refuse(ENDLESS, want=CONDITION, got=got, input=0)
            return []
    kinds, made = _settled(site, [ValueType.of(I64)], [ValueType.of(BOOL), *carried])
    return [*kinds[1:], *_collected(site, made, site.unknown("trips"))]


def _run_loop(
    M: Array | None,
    cond: Array | None,
    *carried: object,
    bodies: Mapping[str, Run],
    site: Site,
    **attributes: object,
) -> tuple[object, ...]:
    trips = 1 << 63 if M is None else int(M.reshape(-1)[0])
    if M is not None and trips > MOST_TRIPS and _counted(site):
        place = f"node {quote(site.node.name)}"
        raise SchedulingDeadlock(ENDLESS, place=place, want=CONDITION, got=f"{trips}")
    going = cond is None or bool(cond.reshape(-1)[0])
    values, rows, trip, taken = list(carried), list[list[object]](), 0, 0
    while going and trip < trips:
        found = bodies["body"]([np.array(trip, np.int64), np.array(going), *values])
        going = bool(np.asarray(found[0]).reshape(-1)[0])
        values = found[1 : len(carried) + 1]
        rows.append(found[len(carried) + 1 :])
        trip += 1
        taken += sum(each.nbytes for each in rows[-1] if isinstance(each, np.ndarray))
        if taken > site.memory:
            raise MemoryError(f"{taken:,} bytes, collected in {trip} iterations")
    kinds = site.outputs[len(carried) :]
    columns = zip(*rows, strict=True) if rows else [()] * len(kinds)
    return (*values, *(stacked(column, kind) for column, kind in zip(columns, kinds, strict=True)))


def stacked(column: Sequence[object], kind: ValueType | None, axis: int = 0) -> Array:
    """What iterations collected, behind each other; of none, an array of none."""
    if column:
        return np.stack([np.asarray(each) for each in column], axis)
    assert kind is not None
    sizes = [dim.constant or 0 for dim in kind.shape] if kind.ranked else [0]
    sizes[axis] = 0
    return np.empty(sizes, numpy_of(kind.dtype))


define(
    "Loop", _loop, formula="repeat body(i, cond, v) while i < M and cond",
    numerics=(f"At most {MOST_TRIPS} iterations that only constant numbers end, loops inside it counted.",),
    shapes="Carried values keep theirs; collected ones get the number of iterations in front.",
    reference=_run_loop, unranked=True, informed=True,
)  # fmt: skip


def _listed(site: Site, key: str, count: int, admitted: Sequence[int] = ()) -> tuple[int, ...]:
    """An attribute with a number for each of several values, by default 0."""
    found = site.integers(key) or (0,) * count
    site.require(
        len(found) == count, f"attribute {key}: number of elements", want=f"{count}", got=list(found)
    )
    good = not admitted or set(found) <= set(admitted)
    site.require(good, f"attribute {key} out of range", want=f"of {list(admitted)}", got=list(found))
    return found


def _scan(site: Site) -> Sequence[Made]:
    many = site.integer("num_scan_inputs")
    states, outputs = len(site.types) - many, len(site.node.outputs)
    want = f"1 to {len(site.types)}, the inputs"
    if not site.require(
        many >= 1 and states >= 0, "attribute num_scan_inputs out of range", want=want, got=many
    ):
        return []
    collected = outputs - states
    site.require(collected >= 0, "number of outputs", want=f"{states} or more, the states", got=outputs)
    axes = _listed(site, "scan_input_axes", many)
    into = _listed(site, "scan_output_axes", max(collected, 0))
    _listed(site, "scan_input_directions", many, (0, 1))
    _listed(site, "scan_output_directions", max(collected, 0), (0, 1))
    if site.problems or not arity(
        site, len(site.types), outputs, "states, then what is scanned or collected"
    ):
        return []
    rows: list[ValueType | None] = []
    trips: Dim | None = None
    for index, axis in enumerate(axes, start=states):
        kind = site.type(index)
        if not kind.ranked:
            rows.append(replace(kind, shape=UNRANKED))
            continue
        place = site.axis(axis, len(kind.shape), "attribute scan_input_axes", kind)
        if place is None:
            return []
        count = kind.shape[place]
        trips = count if trips is None else site.agree(trips, count, "numbers of elements to scan", index)
        rows.append(replace(kind, shape=tuple(dim for at, dim in enumerate(kind.shape) if at != place)))
    kinds, made = _settled(site, (), site.types[:states], rows)
    return [*kinds, *_collected(site, made, trips or site.unknown("trips"), into)]


def _run_scan(
    *values: object, num_scan_inputs: int, bodies: Mapping[str, Run], site: Site, **attributes: object
) -> tuple[object, ...]:
    states, collected = len(values) - num_scan_inputs, len(site.node.outputs) - len(values) + num_scan_inputs
    axes, backwards = (_listed(site, f"scan_input_{key}", num_scan_inputs) for key in ("axes", "directions"))
    into, prepended = (_listed(site, f"scan_output_{key}", collected) for key in ("axes", "directions"))
    carried = list(values[:states])
    scanned = [np.moveaxis(np.asarray(x), axis, 0) for x, axis in zip(values[states:], axes, strict=True)]
    if len({len(each) for each in scanned}) > 1:
        raise ValueError(f"other numbers of elements to scan: {[len(each) for each in scanned]}")
    rows: list[list[object]] = []
    for trip in range(len(scanned[0])):
        row = [x[-1 - trip if back else trip] for x, back in zip(scanned, backwards, strict=True)]
        found = bodies["body"]([*carried, *(np.array(each, order="C") for each in row)])
        carried = found[:states]
        rows.append(found[states:])
    columns: list[Sequence[object]] = list(zip(*rows, strict=True)) if rows else [()] * collected
    columns = [column[::-1] if back else column for column, back in zip(columns, prepended, strict=True)]
    kinds = site.outputs[states:]
    return (*carried, *(stacked(*each) for each in zip(columns, kinds, into, strict=True)))


define(
    "Scan", _scan, formula="for t: states, row = body(states, scan inputs at t); scan outputs = the rows",
    shapes="States keep theirs; rows get the number of iterations along their axis, by default the first.",
    reference=_run_scan, unranked=True, informed=True,
)  # fmt: skip

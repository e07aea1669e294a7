"""The same bits from a case however it runs: by more threads, without a pass, a row alone or among others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import onnx

from assay.errors import ContractError
from assay.formats.onnx_file import from_proto
from assay.graph.dim import Dim
from assay.graph.graph import Graph
from assay.ops.standard.infer import Inference
from assay.ops.standard.site import Site
from assay.runtime.cpu import Cpu
from assay.runtime.host import Value
from assay.runtime.model import Array, analyse, running
from assay.runtime.program import Program, Store
from conformance.cases import Case, node_cases, outside

VARIANTS: Sequence[tuple[int, Set[str]]] = ((1, set()), (2, {"fold", "share"}), (3, {"fuse", "dead"}))
"""Threads, and the passes that are switched off: each pass is off once."""
ROWS = 40
"""At least so many rows are a batch: several threads then have work."""
SOME = 4
"""Cases of a module that are run in all ways: they are like each other."""
PLACES = "what it makes depends on the number of a row"
MIXES: Mapping[str, str] = {
    "EyeLike": PLACES,
    **dict.fromkeys(("Bernoulli", "Dropout"), "a draw depends on its place"),
    "ReverseSequence": "where axis 0 is time, it turns rows round",
    "ScatterND": "an index says which row of the output an update goes to",
    "ScatterElements": "there may be fewer rows of indices than of data",
    "Trilu": PLACES,
}
"""Operators whose outputs' rows need more than the same rows of the inputs though no attribute or input that
is called `axis` or `axes` says so, each with the reason.
"""


DRAWS = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
"""Operators that draw anew in each run if they have no seed."""


def some(module: str, most: int = SOME) -> tuple[Case, ...]:
    """Cases from a module's beginning to its end, but for draws without a seed."""
    cases = [case for case in node_cases(module) if not _drawn(case)]
    return tuple(cases[:: max(1, -(-len(cases) // most))])


def _drawn(case: Case) -> bool:
    nodes = case.model.graph.node
    return any(node.op_type in DRAWS and "seed" not in {a.name for a in node.attribute} for node in nodes)


@dataclass(frozen=True)
class Prepared:
    """A graph as it runs, and what the walk over it found."""

    graph: Graph
    weights: Mapping[str, Array]
    inference: Inference

    def run(self, inputs: Mapping[str, Value], device: Cpu, off: Set[str] = frozenset()) -> list[Value]:
        """The outputs in order."""
        program = Program(self.graph, Store(device), self.weights, trusted=True, off=off)
        return list(program.run(inputs).values())


def prepared(model: onnx.ModelProto) -> Prepared | None:
    """None where contracts refuse it."""
    read = from_proto(model)
    inference = analyse(read)
    return None if inference.errors else Prepared(*running(read, inference), inference)


def bits(value: Value) -> object:
    """What is equal for values that are the same to the last bit."""
    if isinstance(value, list):
        return [bits(each) for each in value]
    if isinstance(value, np.ndarray):
        content = list(value.flat) if value.dtype == object else value.tobytes()
        return str(value.dtype), value.shape, content
    return value


def given(graph: Graph, inputs: Sequence[object]) -> dict[str, Value]:
    """A case's inputs by name."""
    return {name: outside(value) for name, value in zip(graph.inputs, inputs, strict=True)}


def differing(case: Case, devices: Mapping[int, Cpu]) -> list[str]:
    """What depends on the number of threads or on a pass: a variant and an output for each."""
    found = prepared(case.model)
    assert found, case.name
    problems = []
    for inputs, _ in case.data:
        values = given(found.graph, inputs)
        runs = [list(map(bits, found.run(values, devices[threads], off))) for threads, off in VARIANTS]
        problems += [f"{case.name}: {variant}" for variant, each in zip(VARIANTS, runs, strict=True)
                     if each != runs[0]]  # fmt: skip
    return problems


def batched(case: Case) -> tuple[Prepared, list[str]] | None:
    """A node with any number of rows, and the inputs that have them; None where axis 0 is no batch by the
    contract: an output doesn't begin with it, or the operator works along it.
    """
    nodes, infos = case.model.graph.node, case.model.graph.input
    shapes = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in infos]
    if len(nodes) != 1 or not shapes or not shapes[0]:
        return None
    alike = [
        index
        for index, shape in enumerate(shapes)
        if shape[:1] == shapes[0][:1] and len(shape) == len(shapes[0])
    ]
    for chosen in ([0], alike):
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        for index in chosen:
            model.graph.input[index].type.tensor_type.shape.dim[0].dim_param = "rows"
        for info in model.graph.output:
            if not info.type.HasField("tensor_type"):
                return None
            info.type.tensor_type.ClearField("shape")
        found = prepared(model)
        if found and _by_rows(found, given(found.graph, case.data[0][0])):
            return found, [found.graph.inputs[index] for index in chosen]
    return None


def _by_rows(found: Prepared, values: Mapping[str, Value]) -> bool:
    rows = Dim.of("rows")
    outputs = [found.inference.known(name) for name in found.inference.graph.outputs]
    first = all(kind and kind.element is None and kind.shape[:1] == (rows,) for kind in outputs)
    return first and not any(_along_first(site, values) for site in found.inference.sites)


def _along_first(site: Site, values: Mapping[str, Value]) -> bool:
    """Whether an operator works along its first input's axis 0."""
    named = dict(site.attributes)
    for port, name in zip(site.definition.schema.inputs, site.node.inputs, strict=False):
        named[port.name] = values.get(name)
    axes = np.concatenate(
        [np.ravel(named[key]) for key in ("axis", "axes") if named.get(key) is not None] or [()]
    )
    return bool(site.node.op in MIXES or site.node.bodies or {0, -site.rank(0)}.intersection(axes))


def rows_differ(case: Case, devices: Mapping[int, Cpu]) -> bool | None:
    """Whether rows depend on how many there are, and on the others; None where axis 0 is no batch."""
    way = batched(case)
    if way is None:
        return None
    found, names = way
    values = given(found.graph, case.data[0][0])
    count = len(values[names[0]])
    if not count:
        return None

    def run(change: Callable[[Array], Array], device: Cpu) -> list[object]:
        changed = {name: np.ascontiguousarray(change(value)) if name in names else value
                   for name, value in values.items()}  # fmt: skip
        return found.run(changed, device)

    try:
        whole = run(lambda array: array, devices[1])
        many = run(lambda array: _repeated(array, -(-ROWS // count)), devices[3])
        wanted = [_repeated(each, -(-ROWS // count)) for each in whole]
        if list(map(bits, many)) != list(map(bits, wanted)):
            return True
        for row in {0, count - 1} if count > 1 else ():
            alone = run(lambda array, row=row: array[row : row + 1], devices[2])
            if list(map(bits, alone)) != [bits(each[row : row + 1]) for each in whole]:
                return True
    except ContractError:
        return None
    return False


def _repeated(array: Array, times: int) -> Array:
    return np.concatenate([array] * times)

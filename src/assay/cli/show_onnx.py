"""What `assay show` prints of an ONNX file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from assay.cli.arrays import sizes
from assay.cli.command import Report, Values
from assay.cli.model import load_graph
from assay.cli.progress import Bars
from assay.cli.show import Figures, columns, record
from assay.cli.text import table
from assay.errors import RequestError
from assay.formats.onnx_file import load_onnx
from assay.graph.listing import listing
from assay.ops.standard.typed import typed
from assay.runtime.example import example_inputs
from assay.runtime.model import TensorSpec, analyse

if TYPE_CHECKING:
    from assay.runtime.host import Value
    from assay.runtime.program import Ready


def shown(path: Path, arguments: Values) -> Report:
    """The graph as written with the types that follow, or the plans of a run."""
    if arguments.activations:
        raise RequestError("of language models", place="--activations", got=str(path), hint="leave it out")
    if arguments.plan:
        found = _plans(arguments)
        hosts = ["then run by the host", *(", ".join(figures["hosts"]) or "none" for figures in found)]
        head = ["stage", *map(str, range(1, len(found) + 1))]
        return Report(found, table(columns(found, head, hosts)))
    if arguments.shape:
        raise RequestError("sizes are for plans", place="--shape", want="--plan", got="no --plan")
    model = load_onnx(path)
    graph = typed(model.graph, analyse(model))
    return Report({"file": str(path), **record(graph)}, listing(graph, str(path)).splitlines())


def _plans(arguments: Values) -> list[Figures]:
    arguments.threads = 1
    with Bars() as progress:
        model = load_graph(arguments, progress)
        given = sizes(model, arguments.shape or ())
        named = {spec.name: spec.shape or () for spec in model.inputs}
        sized = {spec.name: _zeros(spec, given[spec.name]) for spec in model.inputs if spec.name in given}
        # The batch is the first size that is open: it may be given, and what is given holds.
        rows = next((size for shape in named.values() for size in shape if isinstance(size, str)), "")
        pairs = (pair for name in given for pair in zip(named[name], given[name], strict=False))
        types = {name: model.program.graph.types[name] for name in named}
        model.run({**example_inputs(types, dict(pairs).get(rows) or 1, sized), **sized})
    return [_figures(ready) for ready in model.stages()]


def _zeros(spec: TensorSpec, shape: tuple[int, ...]) -> Value:
    from assay.tensor.dtype import BY_NAME
    from assay.tensor.narrow import numpy_of

    if spec.dtype not in BY_NAME:
        rule = "an input that has no sizes"
        raise RequestError(rule, place=f"--shape {spec.name}", want="an array", got=spec.dtype)
    if spec.dtype == "string":
        return np.full(shape, "", object)
    return np.zeros(shape, numpy_of(BY_NAME[spec.dtype]))


def _figures(ready: Ready) -> Figures:
    from assay.compiler.stage import nbytes_of

    return {
        "calls": len(ready.plan.launches),
        "barriers": sum(launch.barrier for launch in ready.plan.launches),
        "arena_bytes": ready.plan.arena,
        "bytes_of_all_values": sum(nbytes_of(ready.stage, name) for name in ready.plan.offsets),
        "scratch_bytes_per_thread": ready.plan.scratch,
        "kernels": dict(Counter(launch.kernel for launch in ready.plan.launches)),
        "hosts": [site.node.op for site in ready.stage.hosts],
    }

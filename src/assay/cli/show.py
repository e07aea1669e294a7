"""Print a model's graph as a numbered listing, or the plans that run it.

Errors point into this listing. An ONNX graph is shown as its file has it, with the types that follow.
Its plan is that of a batch of 1; other sizes that it leaves open are 64, or as --shape says.

    assay show smollm2 | less
    assay show smollm2 --plan
    assay show ./model.onnx --json
    assay show ppocr-det --plan --shape x=1,3,640,640
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from assay.cli import options
from assay.cli.command import Argument, Report, Values
from assay.cli.model import find_model
from assay.cli.progress import Bars
from assay.cli.text import table
from assay.errors import RequestError

if TYPE_CHECKING:
    from assay.compiler.plan import Plan
    from assay.graph.graph import AttributeValue, Graph

Figures = dict[str, Any]
STEPS = (1, 512)
"""Tokens of the steps whose plans are shown: a new token, and a long piece of a prompt."""
ARGUMENTS = (
    options.MODEL,
    Argument("--plan", "the plans instead: of steps of 1 and 512 tokens, or of a run"),
    options.SHAPES,
    options.JSON,
    replace(options.ACTIVATION, help="of a language model: float32 is exact to rounding", default=None),
)


def run(arguments: Values) -> Report:
    from assay.compiler.plan import Compiler
    from assay.graph.listing import listing
    from assay.llm.loader import design
    from assay.llm.options import Options
    from assay.llm.source import open_source

    with Bars() as progress:
        path = find_model(arguments.model, progress)
    if path.suffix == ".onnx":
        from assay.cli.show_onnx import shown

        return shown(path, arguments)
    if arguments.shape:
        raise RequestError("sizes of a graph's inputs", place="--shape", want="an .onnx file", got=str(path))
    with open_source(path) as source:
        graph = design(source, Options(arguments.activations or "int8")).graph
        weights = source.weights.kinds()
    if not arguments.plan:
        title = f"{path}: {weights}" if " as " in weights else str(path)
        found = {"file": str(path), "types": weights, **record(graph)}
        return Report(found, listing(graph, title).splitlines())
    compiler = Compiler(graph)
    plans = [_figures(compiler.plan({"T": tokens, "S": 1, "R": 1, "A": 0, "E": 0})) for tokens in STEPS]
    head = ["a step of", *(f"{tokens} token{'s' * (tokens > 1)}" for tokens in STEPS)]
    return Report(plans, table(columns(plans, head)))


def _figures(plan: Plan) -> Figures:
    return {
        "step": dict(plan.bound),
        "nodes": len(plan.graph.nodes),
        "tape": len(plan.launches),
        "barriers": sum(launch.barrier for launch in plan.launches),
        "kernels": dict(Counter(launch.kernel for launch in plan.launches)),
        "arena_bytes": plan.arena,
        "scratch_bytes_per_thread": plan.scratch,
    }


def columns(plans: list[Figures], head: list[str], *more: list[str]) -> Iterator[list[str]]:
    """A column for each plan: its figures, then `more`, then how often it launches each kernel."""
    yield head
    for name, value in plans[0].items():
        if isinstance(value, int):
            yield [name.replace("_", " "), *(f"{figures[name]:,}" for figures in plans)]
    yield from (*more, [], ["launches of the tape, by kernel"])
    for kernel in dict.fromkeys(kernel for figures in plans for kernel in figures["kernels"]):
        yield [f"  {kernel}", *(f"{figures['kernels'].get(kernel, 0):,}" for figures in plans)]


def record(graph: Graph) -> dict[str, object]:
    """The graph as JSON has it: values with their types, nodes with their lines."""
    from assay.graph.listing import first_node_line

    def typed(names: tuple[str, ...]) -> dict[str, str | None]:
        return {name: str(graph.types[name]) if name in graph.types else None for name in names}

    values = {kind: typed(getattr(graph, kind)) for kind in ("inputs", "weights", "states", "outputs")}
    return {
        "name": graph.name,
        "opsets": dict(graph.opsets),
        "functions": [record(function) for function in graph.functions],
        **values,
        "nodes": [
            {
                "line": node.line or line,
                "name": node.name,
                "op": node.op,
                "inputs": node.inputs,
                "outputs": typed(node.outputs),
                "attributes": {name: _plain(value) for name, value in node.attributes.items()},
            }
            for line, node in enumerate(graph.nodes, start=first_node_line(graph))
        ],
    }


def _plain(value: AttributeValue) -> object:
    """An attribute as JSON has it; tensors and types as in the listing."""
    from assay.graph.graph import Graph
    from assay.graph.text import written

    if isinstance(value, Graph):
        return record(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float | str) else written(value)

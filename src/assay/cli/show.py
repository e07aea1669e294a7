"""`assay show`: a model's graph, and the plans that run it."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.cli import options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import find_model
from assay.cli.progress import Bars

if TYPE_CHECKING:
    from assay.compiler.plan import Plan
    from assay.graph.graph import Graph

STEPS = (1, 512)
"""Tokens of the steps whose plans are shown: a new token, and a long piece of a prompt."""


def _declare(parser: Parser) -> None:
    parser.add_argument("model", metavar="MODEL", help=options.MODEL)
    parser.add_argument("--plan", action="store_true", help="the plans of steps of 1 and 512 tokens instead")
    parser.add_argument("--json", action="store_true", help="for programs")
    options.add_activations(parser)


def _run(arguments: argparse.Namespace) -> int:
    from assay.graph.listing import listing
    from assay.llm.loader import design
    from assay.llm.options import Options
    from assay.llm.source import open_source

    with Bars() as progress:
        path = find_model(arguments.model, progress)
    with open_source(path) as source:
        graph = design(source, Options(arguments.activations)).graph
        weights = source.weights.kinds()
    if arguments.plan:
        plans = [_figures(plan) for plan in _plans(graph)]
        print(json.dumps(plans) if arguments.json else "\n".join(_table(plans)))
    elif arguments.json:
        print(json.dumps({"file": str(path), "types": weights, **_graph(graph)}))
    else:
        print(listing(graph, f"{path}: {weights}" if " as " in weights else str(path)), end="")
    return GOOD


def _plans(graph: Graph) -> Iterator[Plan]:
    from assay.compiler.plan import Compiler

    compiler = Compiler(graph)
    for tokens in STEPS:
        yield compiler.plan({"T": tokens, "S": 1, "R": 1, "A": 0})


def _figures(plan: Plan) -> dict[str, object]:
    return {
        "step": dict(plan.bound),
        "nodes": len(plan.graph.nodes),
        "tape": len(plan.launches),
        "barriers": sum(launch.barrier for launch in plan.launches),
        "kernels": dict(Counter(launch.kernel for launch in plan.launches)),
        "arena_bytes": plan.arena,
        "scratch_bytes_per_thread": plan.scratch,
    }


def _table(plans: list[dict[str, object]]) -> Iterator[str]:
    """A column for each step: its figures, then how often it launches each kernel."""
    yield _line("a step of", [f"{tokens} token{'s' * (tokens > 1)}" for tokens in STEPS])
    for name, value in plans[0].items():
        if isinstance(value, int):
            yield _line(name.replace("_", " "), [f"{figures[name]:,}" for figures in plans])
    yield ""
    yield "launches of the tape, by kernel"
    counts = [figures["kernels"] for figures in plans]
    for kernel in dict.fromkeys(kernel for count in counts if isinstance(count, dict) for kernel in count):
        yield _line(
            f"  {kernel}", [f"{count.get(kernel, 0):,}" for count in counts if isinstance(count, dict)]
        )


def _line(name: str, cells: list[str]) -> str:
    return f"{name:<28}" + "".join(f"{cell:>14}" for cell in cells)


def _graph(graph: Graph) -> dict[str, object]:
    from assay.graph.listing import first_node_line

    def typed(names: tuple[str, ...]) -> dict[str, str]:
        return {name: str(graph.types[name]) for name in names}

    return {
        "name": graph.name,
        "inputs": typed(graph.inputs),
        "weights": typed(graph.weights),
        "states": typed(graph.states),
        "nodes": [
            {
                "line": line,
                "name": node.name,
                "op": node.op,
                "inputs": node.inputs,
                "outputs": typed(node.outputs),
                "attributes": dict(node.attributes),
            }
            for line, node in enumerate(graph.nodes, start=first_node_line(graph))
        ],
        "outputs": typed(graph.outputs),
    }


COMMAND = Command(
    "show",
    "Print a model's graph as a numbered listing, or the plans that run it.",
    ("assay show smollm2 | less", "assay show smollm2 --plan", "assay show ./model.gguf --json"),
    _declare,
    _run,
    "Errors point into this listing.",
)

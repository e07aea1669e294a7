"""`assay contract`: what an operator promises."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from assay.cli.command import GOOD, Command, Parser

if TYPE_CHECKING:
    from assay.ops.operator import Attribute, Operator, Port


def _declare(parser: Parser) -> None:
    parser.add_argument("operator", metavar="OP", nargs="?", help="an operator's name; without it, a list")
    parser.add_argument("--json", action="store_true", help="for programs")


def _run(arguments: argparse.Namespace) -> int:
    from assay.ops import registry
    from assay.ops.page import page

    if arguments.operator is not None:
        operator = registry.get(arguments.operator)
        print(json.dumps(_record(operator)) if arguments.json else page(operator).rstrip("\n"))
        return GOOD
    operators = registry.all_operators()
    if arguments.json:
        print(json.dumps([{"name": operator.name, "summary": operator.summary} for operator in operators]))
        return GOOD
    width = max(len(operator.name) for operator in operators)
    print("".join(f"{operator.name:<{width}}  {operator.summary}\n" for operator in operators), end="")
    return GOOD


def _record(operator: Operator) -> dict[str, object]:
    exactness = operator.exactness
    # A number, or a formula over dimensions.
    ulp = exactness.ulp if isinstance(exactness.ulp, float) else str(exactness.ulp)
    return {
        "name": operator.name,
        "since": operator.since,
        "summary": operator.summary,
        "formula": operator.formula.strip(),
        "inputs": [_port(port) for port in operator.inputs],
        "outputs": [_port(port) for port in operator.outputs],
        "attributes": [_attribute(attribute) for attribute in operator.attributes],
        "relations": [{"text": relation.text, "hint": relation.hint} for relation in operator.relations],
        "numerics": operator.numerics,
        "exactness": {"kind": exactness.kind, "ulp": ulp, "why": exactness.why},
        "not_differentiable": dict(operator.not_differentiable),
        "in_place": dict(operator.in_place),
        "kernels": [{"name": kernel.name, "applies": kernel.when} for kernel in operator.kernels],
    }


def _port(port: Port) -> dict[str, object]:
    return {**vars(port), "dtypes": [str(dtype) for dtype in port.dtypes], "dims": port.dims.split()}


def _attribute(attribute: Attribute) -> dict[str, object]:
    """Without a default it must be given."""
    from assay.ops.attributes import range_of

    return {
        "name": attribute.name,
        "kind": attribute.kind.__name__,
        "default": attribute.default,
        "admitted": range_of(attribute),
        "doc": attribute.doc,
    }


COMMAND = Command(
    "contract",
    "Print an operator's contract: types, shapes, formula, order of arithmetic, kernels.",
    ("assay contract", "assay contract attention", "assay contract linear > linear.md"),
    _declare,
    _run,
)

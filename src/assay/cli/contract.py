"""Print an operator's contract: types, shapes, formula, order of arithmetic, kernels.

Operators of ONNX go by their names there, those of language models by names of their own. The list says how
each runs: on a kernel, as a function of operators that do, by a reference of ours, or delegated to the
standard's evaluator.

    assay contract
    assay contract Softmax
    assay contract linear > linear.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.cli import options
from assay.cli.command import Argument, Report, Values
from assay.cli.text import table
from assay.errors import RequestError, near

if TYPE_CHECKING:
    from assay.ops.operator import Operator, Port
    from assay.ops.standard.definition import Definition

ARGUMENTS = (Argument("operator", "an operator's name; without it, a list", "OP", nargs="?"), options.JSON)


def run(arguments: Values) -> Report:
    from assay.ops import registry
    from assay.ops.page import page
    from assay.ops.standard import page as standard
    from assay.ops.standard import registry as graphs
    from assay.ops.standard.schema import DEFAULT

    every: list[Operator | Definition] = [*registry.all_operators(), *graphs.all_definitions()]
    name = arguments.operator
    if name is not None:
        definition = graphs.find(name.removeprefix(f"{DEFAULT}."))
        if definition:
            return Report(standard.record(definition), standard.page(definition).splitlines())
        operator = registry.find(name)
        if operator is None:
            hint = near(name, [each.name for each in every])
            raise RequestError("unknown operator", want="one of `assay contract`", got=name, hint=hint)
        return Report(_record(operator), page(operator).splitlines())
    ways = {each.name: each.way for each in graphs.all_definitions()}
    listed = [
        {
            "name": each.name,
            "way": ways.get(each.name, "kernel"),
            "summary": each.summary or each.formula.strip(),
        }
        for each in every
    ]
    return Report(listed, table(([*row.values()] for row in listed), left=3))


def _record(operator: Operator) -> dict[str, object]:
    from assay.ops.attributes import range_of

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
        "attributes": [
            {
                # Without a default it must be given.
                **{name: getattr(attribute, name) for name in ("name", "default", "doc")},
                "kind": attribute.kind.__name__,
                "admitted": range_of(attribute),
            }
            for attribute in operator.attributes
        ],
        "relations": [{"text": relation.text, "hint": relation.hint} for relation in operator.relations],
        "numerics": operator.numerics,
        "exactness": {"kind": exactness.kind, "ulp": ulp, "why": exactness.why},
        "not_differentiable": dict(operator.not_differentiable),
        "in_place": dict(operator.in_place),
        "kernels": [{"name": kernel.name, "applies": kernel.when} for kernel in operator.kernels],
    }


def _port(port: Port) -> dict[str, object]:
    return {**vars(port), "dtypes": [str(dtype) for dtype in port.dtypes], "dims": port.dims.split()}

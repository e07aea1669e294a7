"""`assay contract`: what an operator promises."""

from __future__ import annotations

import argparse

from assay.cli.command import GOOD, Command, Parser


def _declare(parser: Parser) -> None:
    parser.add_argument("operator", metavar="OP", nargs="?", help="an operator's name; without it, a list")


def _run(arguments: argparse.Namespace) -> int:
    from assay.ops import registry
    from assay.ops.page import page

    if arguments.operator:
        print(page(registry.get(arguments.operator)), end="")
        return GOOD
    operators = registry.all_operators()
    width = max(len(operator.name) for operator in operators)
    print("".join(f"{operator.name:<{width}}  {operator.summary}\n" for operator in operators), end="")
    return GOOD


COMMAND = Command(
    "contract",
    "Print an operator's contract: types, shapes, formula, order of arithmetic, kernels.",
    ("assay contract", "assay contract attention", "assay contract linear > linear.md"),
    _declare,
    _run,
)

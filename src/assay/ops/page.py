"""The contract page of an operator, in Markdown, from its record alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.ops.attributes import range_of
from assay.ops.operator import Attribute, Exactness, Operator, Port


def page(operator: Operator) -> str:
    """Summary, formula, ports, attributes, relations, numerics, exactness, gradient and kernels."""
    return "\n".join(_lines(operator)) + "\n"


def _lines(operator: Operator) -> Iterator[str]:
    yield f"# {operator.name}\n\n{operator.summary}\n"
    yield f"Since version {operator.since}.\n"
    yield f"```\n{operator.formula.strip()}\n```\n"
    for title, ports in (("Inputs", operator.inputs), ("Outputs", operator.outputs)):
        if ports:
            yield f"## {title}\n"
            yield table(("name", "dtype", "dimensions", ""), [_port(port, operator) for port in ports])
    if operator.attributes:
        yield "## Attributes\n"
        rows = [_attribute(attribute) for attribute in operator.attributes]
        yield table(("name", "kind", "default", "admitted", ""), rows)
    if operator.relations:
        yield "## Relations\n"
        for relation in operator.relations:
            yield f"- {relation.text}." + (f" If broken: {relation.hint}." if relation.hint else "")
        yield ""
    yield "## Numerics\n"
    yield from (f"- {rule}" for rule in operator.numerics)
    yield f"- Exactness: {exactness_of(operator.exactness)}\n"
    yield "## Gradient\n"
    yield from _gradient(operator)
    yield "\n## Kernels\n"
    yield "The first that applies is taken; all give the same bits.\n"
    kernels = [(f"`{kernel.name}`", kernel.when) for kernel in operator.kernels]
    yield table(("kernel", "applies"), kernels).rstrip("\n")


def _port(port: Port, operator: Operator) -> tuple[str, ...]:
    dtypes = ", ".join(map(str, port.dtypes))
    if port.like and len(port.dtypes) > 1:
        dtypes += f" (as `{port.like}`)"
    doc = port.doc
    if port.name in operator.in_place:
        doc += f"; the memory of `{operator.in_place[port.name]}`"
    elif port.name in operator.in_place.values():
        doc += "; a state, changed in place"
    elif port.panels:
        doc += "; a weight of the graph, which is packed when it is loaded"
    return f"`{port.name}`", dtypes, f"`[{', '.join(port.dims.split())}]`", doc


def _attribute(attribute: Attribute) -> tuple[str, ...]:
    default = "required" if attribute.default is None else f"`{attribute.default!r}`"
    return f"`{attribute.name}`", attribute.kind.__name__, default, range_of(attribute), attribute.doc


def exactness_of(exactness: Exactness) -> str:
    """What is promised, as the end of a sentence."""
    if exactness.kind == "bitwise":
        text = "bit for bit the reference's result"
    elif exactness.kind == "ulp":
        ulp = exactness.ulp if isinstance(exactness.ulp, str) else f"{exactness.ulp:g}"
        measure = "the magnitudes that went into it" if exactness.of else "the reference's result"
        text = f"within {ulp} units in the last place of {measure}"
    else:
        text = "a draw that is a pure function of its seed"
    return f"{text} ({exactness.why})." if exactness.why else f"{text}."


def _gradient(operator: Operator) -> Iterator[str]:
    flows = [port.name for port in operator.inputs if port.name not in operator.not_differentiable]
    if flows:
        yield f"- No rule yet for {', '.join(f'`{name}`' for name in flows)}."
    for name, reason in operator.not_differentiable.items():
        yield f"- Not in `{name}`: {reason}."
    if not operator.inputs:
        yield "- No inputs."


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in cells)

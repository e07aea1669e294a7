"""The contract page of an ONNX operator, in Markdown, from its definition and the standard's schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.ops.page import exactness_of, table
from assay.ops.standard.definition import Definition
from assay.ops.standard.schema import DEFAULT, Port, split_name
from assay.ops.standard.versions import changes

REAL = {"tensor(float)", "tensor(double)", "tensor(float16)", "seq(tensor(float))"}


def page(definition: Definition) -> str:
    """Summary, formula, ports, attributes, shapes, numerics, exactness, gradient, kernels and versions."""
    return "\n".join(_lines(definition)).rstrip("\n") + "\n"


def record(definition: Definition) -> dict[str, object]:
    """The same as JSON has it."""
    schema, exactness = definition.schema, definition.exactness
    attributes = [
        dict(zip(("name", "kind", "default", "admitted"), row, strict=True))
        for row in _attributes(definition)
    ]
    return {
        "name": definition.name,
        "since": schema.version,
        "summary": definition.summary,
        "formula": definition.formula.strip(),
        "inputs": [_port_record(port) for port in schema.inputs],
        "outputs": [_port_record(port) for port in schema.outputs],
        "attributes": attributes,
        "shapes": definition.shapes,
        "numerics": definition.numerics,
        "exactness": {"kind": exactness.kind, "ulp": str(exactness.ulp), "why": exactness.why},
        "not_differentiable": dict(definition.not_differentiable),
        "way": definition.way,
        "runs": _way(definition),
        "kernels": [{"name": name, "applies": when} for name, when in definition.kernels],
        "versions": [{"version": version, "becomes": text} for version, text in _changes(definition)],
    }


def _lines(definition: Definition) -> Iterator[str]:
    schema = definition.schema
    domain, _ = split_name(definition.name)
    yield f"# {definition.name}\n"
    if definition.summary:
        yield f"{definition.summary}\n"
    yield f"Version {schema.version} of {domain}.\n"
    if definition.formula:
        yield f"```\n{definition.formula.strip()}\n```\n"
    for title, ports in (("Inputs", schema.inputs), ("Outputs", schema.outputs)):
        if ports:
            yield f"## {title}\n"
            yield table(("name", "type", ""), [_port(port) for port in ports])
    if schema.attributes:
        yield "## Attributes\n"
        rows = [(f"`{name}`", *rest) for name, *rest in _attributes(definition)]
        yield table(("name", "kind", "default", "admitted"), rows)
    if definition.shapes:
        yield f"## Shapes\n\n{definition.shapes}\n"
    yield "## Numerics\n"
    yield from (f"- {rule}" for rule in definition.numerics)
    yield f"- Exactness: {exactness_of(definition.exactness)}\n"
    yield "## Gradient\n"
    fixed = dict(definition.not_differentiable)
    real = {port.name for port in schema.inputs if REAL.intersection(port.types)}
    flows = [name for name in real if name not in fixed]
    fixed |= {port.name: "not real numbers" for port in schema.inputs if port.name not in real | fixed.keys()}
    if flows:
        yield f"- No rule yet for {', '.join(f'`{name}`' for name in sorted(flows))}."
    yield from (f"- Not in `{name}`: {why}." for name, why in fixed.items())
    yield f"\n## Kernels\n\n{_way(definition)}\n"
    if definition.kernels:
        yield table(("kernel", "applies"), [(f"`{name}`", when) for name, when in definition.kernels])
    found = _changes(definition)
    if found:
        yield "## Older versions\n"
        yield table(("version", "how it becomes the next"), [(str(version), text) for version, text in found])


def _types(port: Port) -> list[str]:
    return sorted(text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text
                  for text in port.types)  # fmt: skip


def _port(port: Port) -> tuple[str, ...]:
    kinds = ", ".join(_types(port))
    how = "may be absent" if port.optional else f"{port.least} or more" if port.variadic else ""
    alike = f"{port.variable}: " if port.variable else ""
    if port.variadic and not port.uniform:
        how += ", each of a type of its own"
    return f"`{port.name}`", f"{alike}{kinds}", how


def _port_record(port: Port) -> dict[str, object]:
    return {
        "name": port.name, "types": _types(port), "variable": port.variable, "optional": port.optional,
        "variadic": port.variadic,
    }  # fmt: skip


def _attributes(definition: Definition) -> list[Sequence[str]]:
    rows: list[Sequence[str]] = []
    for name, each in sorted(definition.schema.attributes.items()):
        default = "required" if each.required else "none" if each.default is None else repr(each.default)
        admitted = definition.ranges.get(name)
        rows.append((name, each.kind, default, str(admitted) if admitted else ""))
    return rows


def _way(definition: Definition) -> str:
    """How a node is run."""
    if definition.view:
        return "The output is the input's memory: nothing runs."
    if definition.pointwise:
        return "A link of an elementwise chain: neighbours run as one kernel, block by block."
    if definition.lower:
        return "Calls of kernels; whichever applies gives the same bits."
    if definition.expand:
        return "By the function that the standard gives for it, whose operators run on kernels."
    if definition.function:
        return "By a function of our own, whose operators run on kernels."
    if definition.reference:
        return "NumPy computes it between two tapes of kernels."
    return "The standard's own evaluator computes it between two tapes of kernels."


def _changes(definition: Definition) -> list[tuple[int, str]]:
    domain, _ = split_name(definition.name)
    known = definition.given is None and (domain == DEFAULT or domain.startswith("ai.onnx"))
    return changes(definition.name) if known else []

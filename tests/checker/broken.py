"""Models that are broken on purpose, each with what is to be found: line, node, operator, part of the rule.

Most stand in broken.txt, in the standard's notation:

    # name
    opset "" : 11            (where it isn't 21)
    inputs => outputs <weights>
    nodes
    functions …
    > line node operator: part of the rule      (in order; a node is - where it has no name)
    + nodes that are folded under these

A line is one of the listing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import helper, numpy_helper, parser

Found = tuple[int, str, str, str]


@dataclass(frozen=True)
class Broken:
    """A model, what the check finds in it, and how many nodes are folded under what is found."""

    name: str
    model: onnx.ModelProto
    found: tuple[Found, ...]
    folded: int = 0


def _parsed(block: str) -> Broken:
    lines = block.splitlines()
    name = lines.pop(0).removeprefix("# ")
    opset = lines.pop(0).removeprefix("opset ") if lines[0].startswith("opset ") else '"" : 21'
    found, folded, functions, nodes = list[Found](), 0, "", list[str]()
    for line in lines[1:]:
        if line.startswith("> "):
            place, _, rule = line.removeprefix("> ").partition(": ")
            number, node, operator = place.split()
            found.append((int(number), node.strip("-"), operator, rule))
        elif line.startswith("+ "):
            folded = int(line.removeprefix("+ "))
        elif line.startswith("functions "):
            functions = line.removeprefix("functions ")
        else:
            nodes.append(line)
    text = f"<ir_version: 10, opset_import: [{opset}]>\ng {lines[0]}\n{{ {' '.join(nodes)} }}\n{functions}"
    try:
        return Broken(name, parser.parse_model(text), tuple(found), folded)
    except parser.ParseError as error:
        raise ValueError(f"{name}: {error}") from error


def _changed(
    name: str, change: Callable[[onnx.ModelProto], object], *found: Found, folded: int = 0
) -> Broken:
    """A sound model after a change that the notation can't say."""
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[N, 4] x) => (float[N, 4] y) '
    model = parser.parse_model(text + "<float[4] w = {1, 2, 3, 4}> { [a] h = Add(x, w) [b] y = Relu(h) }")
    change(model)
    return Broken(name, model, found, folded)


def _twice(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.extend([helper.make_attribute("k", 1), helper.make_attribute("k", 2)])


def _short(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data = b"\0\0\0\0"
    del model.graph.initializer[0].float_data[:]


def _functions(model: onnx.ModelProto) -> None:
    node = helper.make_node("Neg", ["a"], ["b"])
    model.functions.extend(
        [helper.make_function("l", "F", ["a"], ["b"], [node], [helper.make_opsetid("", 21)])] * 2
    )


def _type(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = 99


CHANGED = (
    _changed("no opset", lambda m: m.ClearField("opset_import"), (0, "", "", "no opset")),
    _changed(
        "two opsets",
        lambda m: m.opset_import.append(helper.make_opsetid("", 12)),
        (0, "", "", "two opsets"),
    ),
    _changed("no graph", lambda m: m.ClearField("graph"), (0, "", "", "no graph")),
    _changed(
        "opset of the future",
        lambda m: setattr(m.opset_import[0], "version", 999),
        (2, "", "opset", "unknown version"),
    ),
    _changed(
        "opset 0",
        lambda m: setattr(m.opset_import[0], "version", 0),
        (2, "", "opset", "unknown version"),
    ),
    _changed(
        "initialiser twice",
        lambda m: m.graph.initializer.append(m.graph.initializer[0]),
        (0, "", "", "two initialisers of one name"),
    ),
    _changed(
        "initialiser without a name",
        lambda m: m.graph.initializer[0].ClearField("name"),
        (0, "", "", "without a name"),
    ),
    _changed("initialiser cut short", _short, (0, "", "", "don't fill its shape")),
    _changed("attribute twice", _twice, (0, "", "", "attribute given twice")),
    _changed("two functions of one name", _functions, (0, "", "", "two functions of one name")),
    _changed("element type that there isn't", _type, (0, "", "", "unknown element type")),
    _changed(
        "input twice", lambda m: m.graph.input.append(m.graph.input[0]), (0, "", "input", "defined twice")
    ),
    _changed(
        "weight of another type",
        lambda m: m.graph.initializer[0].CopyFrom(
            numpy_helper.from_array(numpy_helper.to_array(m.graph.initializer[0]).astype("float64"), "w")
        ),
        (5, "a", "Add", "types differ"),
        folded=1,
    ),
    _changed(
        "input that must be there is empty",
        lambda m: m.graph.node[0].input.__setitem__(1, ""),
        (5, "a", "Add", "input missing"),
        folded=1,
    ),
    _changed(
        "initialiser taken away",
        lambda m: m.graph.initializer.pop(),
        (4, "a", "Add", "value undefined"),
        folded=1,
    ),
    _changed(
        "domain misspelt",
        lambda m: setattr(m.graph.node[1], "domain", "ai.onx"),
        (6, "b", "ai.onx.Relu", "isn't imported"),
    ),
)

CASES = (
    *map(_parsed, (Path(__file__).parent / "broken.txt").read_text().strip().split("\n\n")),
    *CHANGED,
)

"""A graph as numbered lines of text that parse back to an equal graph.

      1  graph tiny
      2  input x: float32[T, 64]
      3  weight w: float32[32, 64]
      4  h: float32[T, 64] = rms_norm(x, n; eps=1e-05)  # norm
      5  y: float32[T, 32] = linear(h, w)
      6  output y

A name that isn't plain stands in quotes, with JSON's escapes, so the text is ASCII whatever the names are.
Attributes' values are JSON: floats have the digits that give the same bits back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from assay.errors import FormatError
from assay.graph.graph import AttributeValue, Graph, Node, ValueType
from assay.graph.text import KEYWORDS, PLAIN, Cursor, quote


def listing(graph: Graph, file: str = "") -> str:
    """The graph's lines, numbered from 1; `parse` reads them back. The first can name the graph's `file`."""
    comment = f"  # {quote(file)}" if file else ""
    return "".join(
        f"{number:>5}  {line}{comment if number == 1 else ''}\n"
        for number, line in enumerate(_lines(graph), start=1)
    )


def first_node_line(graph: Graph) -> int:
    """The line of the first node; inputs, weights and states stand above it from line 2."""
    return 2 + len(graph.inputs) + len(graph.weights) + len(graph.states)


def parse(text: str) -> Graph:
    """The graph of a listing; line numbers may be missing. Raises FormatError with line and column."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), start=1):
        reader.read(Cursor(line, number))
    graph, inputs, weights, states, _, outputs = map(tuple, reader.names.values())
    if not graph:
        raise FormatError("no graph in the listing", place="line 1", want="graph NAME", got=ascii(text[:40]))
    return Graph(graph[0], inputs, weights, states, tuple(reader.nodes), outputs, reader.types)


def _lines(graph: Graph) -> Iterator[str]:
    def typed(name: str) -> str:
        return f"{quote(name)}: {graph.types[name]}" if name in graph.types else quote(name)

    yield f"graph {quote(graph.name)}"
    for kind, name in graph.sources():
        yield f"{kind} {typed(name)}"
    for node in graph.nodes:
        outputs = ", ".join(map(typed, node.outputs))
        inputs = ", ".join(map(quote, node.inputs))
        attributes = ", ".join(f"{quote(key)}={json.dumps(value)}" for key, value in node.attributes.items())
        arguments = f"{inputs}; {attributes}" if attributes else inputs
        comment = f"  # {quote(node.name)}" if node.name else ""
        yield f"{outputs} = {quote(node.op)}({arguments}){comment}"
    for name in graph.outputs:
        yield f"output {quote(name)}"


class _Reader:
    """What the lines read so far add up to."""

    def __init__(self) -> None:
        self.section = 0
        self.names: dict[str, list[str]] = {kind: [] for kind in KEYWORDS}
        self.nodes: list[Node] = []
        self.types: dict[str, ValueType] = {}

    def read(self, line: Cursor) -> None:
        if line.done:
            return
        start = line.position
        word = line.take(PLAIN)
        kind = word if word in KEYWORDS and word != "node" else "node"
        section = KEYWORDS.index(kind)
        if section < self.section or (kind == "graph") == bool(self.names["graph"]):
            raise line.error("graph, inputs, weights, states, nodes and outputs, in this order", start)
        self.section = section
        if kind == "node":
            line.position = start
            self.node(line)
        else:
            self.names[kind].append(line.name() if kind in ("graph", "output") else self.value(line))
            if kind == "graph" and line.accept("#"):
                line.name()
        if not line.done:
            raise line.error("the end of the line")

    def value(self, line: Cursor) -> str:
        position = line.position
        name = line.name()
        if line.accept(":"):
            kind = line.type()
            if self.types.setdefault(name, kind) != kind:
                raise line.error(f"{self.types[name]}, the type that {quote(name)} has above", position)
        return name

    def node(self, line: Cursor) -> None:
        outputs = line.items(lambda: self.value(line), "=")
        line.expect("=")
        op = line.name()
        line.expect("(")
        inputs = line.items(line.name, ";)")
        attributes: dict[str, AttributeValue] = {}
        if line.accept(";"):
            line.items(lambda: self.attribute(line, attributes), ")")
        line.expect(")")
        name = line.name() if line.accept("#") else ""
        self.nodes.append(Node(op, inputs, outputs, attributes, name))

    def attribute(self, line: Cursor, attributes: dict[str, AttributeValue]) -> None:
        position = line.position
        key = line.name()
        if key in attributes:
            raise line.error("each attribute once", position)
        line.expect("=")
        attributes[key] = line.value()

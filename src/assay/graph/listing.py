"""A graph as numbered lines of text that parse back to an equal graph.

      1  graph tiny
      2  input x: float32[T, 64]
      3  weight w: float32[32, 64]
      4  h: float32[T, 64] = rms_norm(x, n; eps=1e-05)  # norm
      5  y: float32[T, 32] = linear(h, w)
      6  output y

A file's graph says which operators it means (`opset ai.onnx 21`) and lists its functions, each from its line
`function NAME` to its line `end`. So do graphs in attributes, from `graph NAME` on, behind their node's line.

A name that isn't plain stands in quotes, with JSON's escapes, so the text is ASCII whatever the names are.
Attributes' values are JSON: floats have the digits that give the same bits back. A tensor is `tensor(type,
elements)`, or with its digest for elements where they are many; an absent input is "".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from assay.errors import FormatError
from assay.graph.graph import AttributeValue, Graph, Node, ValueType
from assay.graph.text import KEYWORDS, PLAIN, Cursor, quote, written


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
    lines = (Cursor(line, number) for number, line in enumerate(text.split("\n"), start=1))
    reader = _Reader("graph", [line for line in lines if not line.done])
    graph = reader.graph()
    if reader.lines:
        raise reader.lines[0].error("the end of the listing")
    return graph.numbered()


def _lines(graph: Graph, head: str = "graph") -> Iterator[str]:
    def typed(name: str) -> str:
        return f"{quote(name)}: {graph.types[name]}" if name in graph.types else quote(name)

    yield f"{head} {quote(graph.name)}{_parameters(graph.parameters)}"
    for domain, version in graph.opsets.items():
        yield f"opset {quote(domain)} {version}"
    for function in graph.functions:
        yield from _block(function, "function")
    for kind, name in graph.sources():
        yield f"{kind} {typed(name)}"
    for node in graph.nodes:
        outputs = ", ".join(map(typed, node.outputs))
        inputs = ", ".join(map(quote, node.inputs))
        attributes = ", ".join(f"{quote(key)}={written(value)}" for key, value in node.attributes.items())
        arguments = f"{inputs}; {attributes}" if attributes else inputs
        comment = f"  # {quote(node.name)}" if node.name else ""
        yield f"{outputs} = {quote(node.op)}({arguments}){comment}"
        for _, body in node.bodies:
            yield from _block(body, "graph")
    for name in graph.outputs:
        yield f"output {quote(name)}"


def _block(graph: Graph, head: str) -> Iterator[str]:
    yield from (f"  {line}" for line in _lines(graph, head))
    yield "end"


def _parameters(parameters: Mapping[str, AttributeValue | None]) -> str:
    if not parameters:
        return ""
    each = (
        quote(name) + ("" if value is None else f"={written(value)}") for name, value in parameters.items()
    )
    return f"({', '.join(each)})"


class _Reader:
    """Reads one graph, from its first line to its end or that of the listing; `lines` are those left."""

    def __init__(self, head: str, lines: list[Cursor], nested: bool = False) -> None:
        self.head = head
        self.lines = lines
        self.nested = nested
        self.names: dict[str, list[str]] = {kind: [] for kind in KEYWORDS}
        self.nodes: list[Node] = []
        self.types: dict[str, ValueType] = {}
        self.opsets: dict[str, int] = {}
        self.functions: list[Graph] = []
        self.parameters: dict[str, AttributeValue | None] = {}

    def graph(self) -> Graph:
        if not self.lines:
            raise FormatError("no graph in the listing", place="line 1", want=f"{self.head} NAME", got="''")
        line = self.lines.pop(0)
        name = self._head(line)
        section = 0
        while self.lines:
            line = self.lines[0]
            start = line.position
            word = line.take(PLAIN)
            if word == "end" and self.nested:
                self._end(self.lines.pop(0))
                break
            kind = word if word in KEYWORDS and word != "node" else "node"
            if KEYWORDS.index(kind) < section or kind in ("graph", "end"):
                raise line.error("graph, inputs, weights, states, nodes and outputs, in this order", start)
            section = KEYWORDS.index(kind)
            line.position = start if kind in ("node", "function") else line.position
            if kind == "function":
                self.functions.append(_Reader("function", self.lines, True).graph())
                continue
            self._line(kind, self.lines.pop(0))
        inputs, weights, states, outputs = (
            tuple(self.names[kind]) for kind in ("input", "weight", "state", "output")
        )
        nodes, functions = tuple(self.nodes), tuple(self.functions)
        return Graph(
            name, inputs, weights, states, nodes, outputs, self.types, self.opsets, functions, self.parameters
        )

    def _head(self, line: Cursor) -> str:
        start = line.position
        if line.take(PLAIN) != self.head:
            raise line.error(f"{self.head} NAME", start)
        name = line.name()
        if line.accept("("):
            line.items(lambda: self._parameter(line), ")")
            line.expect(")")
        if line.accept("#"):
            line.name()
        self._end(line)
        return name

    def _end(self, line: Cursor) -> None:
        if not line.done:
            raise line.error("the end of the line")

    def _line(self, kind: str, line: Cursor) -> None:
        if kind == "node":
            self._node(line)
            return
        if kind == "opset":
            domain, version = line.name(), line.json("a version")
            if not isinstance(version, int):
                raise line.error("a version")
            self.opsets[domain] = version
        else:
            self.names[kind].append(line.name() if kind == "output" else self._value(line))
        self._end(line)

    def _value(self, line: Cursor) -> str:
        position = line.position
        name = line.name()
        if line.accept(":"):
            kind = line.type()
            if self.types.setdefault(name, kind) != kind:
                raise line.error(f"{self.types[name]}, the type that {quote(name)} has above", position)
        return name

    def _node(self, line: Cursor) -> None:
        outputs = line.items(lambda: self._value(line), "=")
        line.expect("=")
        op = line.name()
        line.expect("(")
        inputs = line.items(line.name, ";)")
        attributes: dict[str, AttributeValue] = {}
        bodies: list[str] = []
        if line.accept(";"):
            line.items(lambda: self._attribute(line, attributes, bodies), ")")
        line.expect(")")
        name = line.name() if line.accept("#") else ""
        self._end(line)
        for key in bodies:
            attributes[key] = _Reader("graph", self.lines, True).graph()
        self.nodes.append(Node(op, inputs, outputs, attributes, name))

    def _attribute(self, line: Cursor, attributes: dict[str, AttributeValue], bodies: list[str]) -> None:
        position = line.position
        key = line.name()
        if key in attributes:
            raise line.error("each attribute once", position)
        line.expect("=")
        value = line.value()
        if value is None:
            bodies.append(key)
        attributes[key] = "" if value is None else value  # a body takes its place in the order

    def _parameter(self, line: Cursor) -> None:
        name = line.name()
        self.parameters[name] = line.value() if line.accept("=") else None

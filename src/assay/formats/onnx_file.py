"""ONNX files as graphs, as they are written; what they say is checked before it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError, within
from assay.formats.files import opened, read_at
from assay.formats.onnx_tensor import dtype_of, read_sparse, read_tensor
from assay.formats.tensors import quoted
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Literal, Node, Reference, ValueType
from assay.ops.standard.schema import DEFAULT, full_name
from assay.tensor.dtype import MAP, OPTIONAL, SEQUENCE

if TYPE_CHECKING:
    import onnx
    from google.protobuf.message import Message

Array = NDArray[np.generic]
LARGEST = (1 << 31) - 1
"""Bytes of the largest protobuf."""
DEEPEST = 40
"""Graphs in nodes of graphs; types in types."""
_SYMBOL = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class OnnxModel:
    """A file's graph, with each node's line in its listing, and its weights as kernels know them."""

    path: Path | None
    graph: Graph
    weights: Mapping[str, Array]
    metadata: Mapping[str, str]
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Where a node, by its first output, stands in the source that it was exported from."""
    defaults: frozenset[str] = frozenset()
    """Weights that are inputs, too: what a run may give in their place."""

    def without(self, names: frozenset[str]) -> OnnxModel:
        """The same where some of the `defaults` are inputs alone."""
        weights = {name: array for name, array in self.weights.items() if name not in names}
        inputs = (*self.graph.inputs, *sorted(names))
        graph = replace(self.graph, inputs=inputs, weights=tuple(weights)).numbered()
        return replace(self, graph=graph, weights=weights, defaults=self.defaults - names)


def load_onnx(path: Path) -> OnnxModel:
    """The model in a file. Raises ModelNotFoundError or FormatError, naming the file."""
    import onnx
    from google.protobuf.message import DecodeError

    proto = onnx.ModelProto()
    with opened(path, "an ONNX model") as (fd, size):
        if size > LARGEST:
            raise FormatError("too large for a protobuf", want=f"at most {LARGEST} bytes", got=f"{size}")
        try:
            proto.ParseFromString(read_at(fd, 0, size).tobytes())
        except (DecodeError, RuntimeError) as error:
            hint = "the download may be incomplete"
            raise FormatError(
                "not an ONNX file", want="a ModelProto", got=str(error)[:200], hint=hint
            ) from error
        return from_proto(proto, path)


def from_proto(proto: onnx.ModelProto, path: Path | None = None) -> OnnxModel:
    """A model in memory; `path` is where it was read. Raises FormatError."""
    if not proto.HasField("graph"):
        hint = "is this an ONNX file?"
        raise FormatError("no graph in the model", want="a model with a graph", got="none", hint=hint)
    _refuse_bytes(proto)
    return _Reader(proto, path.parent if path else Path()).model(path)


def _refuse_bytes(message: Message) -> None:
    """Raise FormatError for a name that isn't UTF-8: the parser hands it out as bytes."""
    from google.protobuf.message import Message

    for kind, held in message.ListFields():
        single = isinstance(held, str | bytes | Message)
        if kind.message_type:
            for each in (held,) if single else held:
                _refuse_bytes(each)
        elif kind.type == kind.TYPE_STRING:
            for each in (held,) if single else held:
                if isinstance(each, bytes):
                    raise FormatError("not a text", place=kind.name, want="UTF-8", got=repr(each[:40]))


def function(proto: onnx.FunctionProto, opsets: Mapping[str, int]) -> Graph:
    """A function as a graph; `opsets` are what it means where it doesn't say so itself."""
    import onnx

    made = _Reader(onnx.ModelProto(), Path())._function(proto)
    return made if made.opsets else replace(made, opsets=opsets)


class _Reader:
    """Reads one model."""

    def __init__(self, proto: onnx.ModelProto, folder: Path) -> None:
        self.proto = proto
        self.folder = folder
        self.symbols: dict[str, str] = {}
        self.weights: dict[str, Array] = {}
        self.scopes: dict[str, str] = {}
        self.depth = 0

    def model(self, path: Path | None) -> OnnxModel:
        opsets = self._opsets(self.proto.opset_import)
        if not opsets:
            hint = "the file doesn't say which operators it means"
            raise FormatError("no opset", want="opset_import", got="none", hint=hint)
        functions = tuple(self._function(each) for each in self.proto.functions)
        names = [each.name for each in functions]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise FormatError("two functions of one name", want="names of their own", got=", ".join(twice))
        inner = self._graph(self.proto.graph)
        own = replace(inner, opsets=opsets, functions=functions)
        metadata = {entry.key: entry.value for entry in self.proto.metadata_props}
        defaults = frozenset(info.name for info in self.proto.graph.input).intersection(self.weights)
        return OnnxModel(path, own.numbered(), self.weights, metadata, self.scopes, defaults)

    def _opsets(self, imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in imports:
            domain = each.domain or DEFAULT
            if found.setdefault(domain, each.version) != each.version:
                got = f"{found[domain]} and {each.version}"
                raise FormatError(f"two opsets of {domain}", want="one version", got=got)
        return found

    def _graph(self, proto: onnx.GraphProto, nested: bool = False) -> Graph:
        self.depth += 1
        if self.depth > DEEPEST:
            raise FormatError("graphs inside each other", want=f"at most {DEEPEST}", got="more")
        _refuse_nameless([info.name for info in (*proto.input, *proto.output)], f"graph {quoted(proto.name)}")
        types = self._types((*proto.value_info, *proto.output, *proto.input))
        weights: list[str] = []
        constants: list[Node] = []
        dense = ((each.name, read_tensor(each, self.folder)) for each in proto.initializer)
        sparse = ((each.values.name, read_sparse(each, self.folder)) for each in proto.sparse_initializer)
        for name, (dtype, array) in (*dense, *sparse):
            if not name:
                raise FormatError("an initialiser without a name", want="a name", got='""')
            if nested:
                constants.append(Node("Constant", (), (name,), {"value": Literal.of(dtype, array)}))
                continue
            if name in self.weights:
                raise FormatError("two initialisers of one name", want="names of their own", got=quoted(name))
            types[name] = ValueType.of(dtype, *array.shape)
            self.weights[name] = array
            weights.append(name)
        inputs = tuple(info.name for info in proto.input if info.name not in self.weights or nested)
        untyped = [name for name in inputs if name not in types and not nested]
        if untyped:
            raise FormatError("an input without a type", want="its type", got=quoted(untyped[0]))
        nodes = (*constants, *(self._node(each) for each in proto.node))
        outputs = tuple(info.name for info in proto.output)
        self.depth -= 1
        return Graph(proto.name, inputs, tuple(weights), (), nodes, outputs, types)

    def _function(self, proto: onnx.FunctionProto) -> Graph:
        name = full_name(proto.domain, _overloaded(proto.name, proto.overload))
        _refuse_nameless([*proto.input, *proto.output], f"function {quoted(name)}")
        parameters: dict[str, AttributeValue | None] = dict.fromkeys(proto.attribute)
        parameters |= {each.name: self._attribute(each) for each in proto.attribute_proto}
        nodes = tuple(self._node(each) for each in proto.node)
        types = self._types(proto.value_info)
        opsets = self._opsets(proto.opset_import)
        inputs, outputs = tuple(proto.input), tuple(proto.output)
        return Graph(name, inputs, (), (), nodes, outputs, types, opsets, (), parameters)

    def _node(self, proto: onnx.NodeProto) -> Node:
        place = f"node {quoted(proto.name or next(iter(proto.output), ''))} ({proto.op_type})"
        with within(place):
            attributes: dict[str, AttributeValue] = {}
            for each in proto.attribute:
                if each.name in attributes:
                    raise FormatError("an attribute given twice", want="each once", got=quoted(each.name))
                attributes[each.name] = self._attribute(each)
        scope = next(
            (e.value for e in proto.metadata_props if e.key.endswith(("namespace", "name_scopes"))), ""
        )
        if scope and proto.output:
            self.scopes[proto.output[0]] = scope
        op = full_name(proto.domain, _overloaded(proto.op_type, proto.overload))
        if not op.isprintable() or len(op) > 255:
            raise FormatError("not the name of an operator", place=place, want="a word", got=quoted(op))
        return Node(op, tuple(proto.input), tuple(proto.output), attributes, proto.name)

    def _attribute(self, proto: onnx.AttributeProto) -> AttributeValue:
        if proto.ref_attr_name:
            return Reference(proto.ref_attr_name)
        kind = proto.AttributeType.Name(proto.type).lower() if proto.type else _guessed(proto)
        place = f"attribute {quoted(proto.name)}"
        with within(place):
            match kind:
                case "int":
                    return int(proto.i)
                case "float":
                    return _short(proto.f)
                case "string":
                    return str(proto.s.decode("utf-8", "surrogateescape"))
                case "ints":
                    return tuple(proto.ints)
                case "floats":
                    return tuple(map(_short, proto.floats))
                case "strings":
                    return tuple(each.decode("utf-8", "surrogateescape") for each in proto.strings)
                case "tensor":
                    return Literal.of(*read_tensor(proto.t, self.folder))
                case "tensors":
                    return tuple(Literal.of(*read_tensor(each, self.folder)) for each in proto.tensors)
                case "sparse_tensor":
                    return Literal.of(*read_sparse(proto.sparse_tensor, self.folder))
                case "graph":
                    return self._graph(proto.g, nested=True)
                case "type_proto":
                    return self._type(proto.tp, proto.name)
        raise FormatError("unknown kind of attribute", want="int, float, string, tensor, graph, …", got=kind)

    def _types(self, infos: Iterable[onnx.ValueInfoProto]) -> dict[str, ValueType]:
        """Those that are said."""
        said = (info for info in infos if info.type.WhichOneof("value"))
        return {info.name: self._type(info.type, info.name) for info in said}

    def _type(self, proto: onnx.TypeProto, name: str, depth: int = 0) -> ValueType:
        place = f"value {quoted(name)}"
        if depth > DEEPEST:
            raise FormatError("types inside each other", place=place, want=f"at most {DEEPEST}", got="more")
        kind = proto.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            element = self._type(getattr(proto, kind).elem_type, name, depth + 1)
            return ValueType(SEQUENCE if kind == "sequence_type" else OPTIONAL, (), element)
        if kind == "map_type":
            value = self._type(proto.map_type.value_type, name, depth + 1)
            return ValueType(MAP, (), ValueType(dtype_of(proto.map_type.key_type, place), (), value))
        if kind not in ("tensor_type", "sparse_tensor_type"):
            want = "a tensor, a sequence, an optional or a map"
            raise FormatError("a value of no known type", place=place, want=want, got=str(kind))
        tensor = getattr(proto, kind)
        dtype = dtype_of(tensor.elem_type, place)
        if not tensor.HasField("shape"):
            return ValueType.of(dtype, "...")
        dims = tuple(self._dim(dim, name, axis) for axis, dim in enumerate(tensor.shape.dim))
        return ValueType(dtype, dims)

    def _dim(self, proto: onnx.TensorShapeProto.Dimension, name: str, axis: int) -> Dim:
        if proto.HasField("dim_value") and proto.dim_value >= 0:
            return Dim.of(proto.dim_value)
        text = proto.dim_param
        if text in ("", "?"):
            return Dim.of(self._symbol(f"{name}_{axis}", "_"))
        try:
            dim = Dim.of(text)
        except (ValueError, ArithmeticError):
            return Dim.of(self._symbol(text))
        plain = all(_SYMBOL.fullmatch(symbol) for symbol in dim.symbols) and dim.symbols
        return dim if plain else Dim.of(self._symbol(text))

    def _symbol(self, text: str, before: str = "") -> str:
        """A name for a dimension that has none, or one that isn't plain; the same for the same text."""
        key = before + text
        if key not in self.symbols:
            plain = re.sub(r"[^A-Za-z0-9_]", "_", text).strip("_") or "d"
            name = before + (plain if before or not plain[0].isdigit() else f"d{plain}")
            taken = set(self.symbols.values())
            number = 2
            own = name
            while own in taken:
                own, number = f"{name}_{number}", number + 1
            self.symbols[key] = own
        return self.symbols[key]


def _refuse_nameless(names: Iterable[str], place: str) -> None:
    if not all(names):
        raise FormatError("an input or output without a name", place=place, want="names", got='""')


def _overloaded(name: str, overload: str) -> str:
    """How a function is told from others of its name."""
    return f"{name}:{overload}" if overload else name


def _short(value: float) -> float:
    """A float32 with the fewest digits that say it."""
    return float(str(np.float32(value)))


def _guessed(proto: onnx.AttributeProto) -> str:
    """The kind of an attribute of the oldest files, which don't say it: that of the field that is set."""
    fields = {"f": "float", "i": "int", "s": "string", "t": "tensor", "g": "graph", "tp": "type_proto"}
    for name, kind in fields.items():
        if proto.HasField(name):
            return kind
    for name in ("floats", "ints", "strings", "tensors"):
        if getattr(proto, name):
            return name
    return "ints"

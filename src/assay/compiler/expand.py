"""Operators that run by the function that the standard gives for them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from assay.formats.onnx_file import function
from assay.graph.graph import Graph, Literal, Node, ValueType
from assay.ops.standard.schema import DEFAULT, newest, spelled, split_name
from assay.ops.standard.site import UNKNOWN, Site
from assay.tensor.dtype import BF16, F16
from assay.tensor.narrow import outside


def function_of(site: Site) -> Graph | None:
    """The function by which a node runs; None where kernels do, or a reference."""
    own = site.definition.function and site.definition.function(site)
    if own or not site.definition.expand or site.definition.native or UNKNOWN in site.types:
        return own or None
    if site.definition.once_rounded and site.dtype(0) in (F16, BF16):
        return _in_float32(site)
    return _body(site.node.op, site.node, site.types)


def _in_float32(site: Site) -> Graph:
    """The node on casts of its inputs, and its outputs cast back."""
    node, code = site.node, _code(site.type(0))
    inputs = tuple(f"x{index}" if name else "" for index, name in enumerate(node.inputs))
    outputs = tuple(f"y{index}" for index in range(len(node.outputs)))
    casts = [Node("Cast", (name,), (f"{name}'",), {"to": 1}) for name in inputs if name]
    inner = Node(
        node.op, tuple(f"{x}'" if x else "" for x in inputs), tuple(f"{y}'" for y in outputs), node.attributes
    )
    back = [Node("Cast", (f"{name}'",), (name,), {"to": code}) for name in outputs]
    return Graph(node.op, inputs, (), (), (*casts, inner, *back), outputs, {}, {DEFAULT: newest(DEFAULT)})


def _body(op: str, node: Node, kinds: tuple[ValueType | None, ...]) -> Graph:
    import onnx
    from onnx import defs, helper, numpy_helper

    domain, plain = split_name(op)
    version = newest(domain)
    schema: Any = defs.get_schema(plain, version, "" if domain == DEFAULT else domain)
    if schema.has_function:
        return _plain(op, schema.since_version)
    attributes: dict[str, Any] = {
        key: numpy_helper.from_array(outside(value.array(), value.dtype))
        if isinstance(value, Literal)
        else value
        for key, value in node.attributes.items()
    }
    proto = helper.make_node(plain, node.inputs, node.outputs, node.name, domain=schema.domain, **attributes)
    types = [
        helper.make_tensor_type_proto(
            _code(kind), [d.constant if d.constant is not None else str(d) for d in kind.shape]
        ).SerializeToString()
        if kind
        else onnx.TypeProto().SerializeToString()
        for kind in kinds
    ]
    made = schema.get_context_dependent_function(proto.SerializeToString(), types)
    return function(onnx.FunctionProto.FromString(made), {DEFAULT: version, domain: version})


@lru_cache(maxsize=256)
def _plain(op: str, version: int) -> Graph:
    from onnx import defs

    domain, plain = split_name(op)
    schema: Any = defs.get_schema(plain, version, "" if domain == DEFAULT else domain)
    return function(schema.function_body, {})


def _code(kind: ValueType) -> int:
    import onnx

    name = spelled(kind)[len("tensor(") : -1].upper()
    return int(onnx.TensorProto.DataType.Value(name))

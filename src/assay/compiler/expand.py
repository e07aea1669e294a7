"""Operators that run by the function that the standard gives for them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from assay.formats.onnx_file import function
from assay.graph.graph import Graph, Node, ValueType
from assay.ops.standard.function import exported, number_of
from assay.ops.standard.schema import DEFAULT, newest, split_name
from assay.ops.standard.site import UNKNOWN, Site


def function_of(site: Site) -> Graph | None:
    """The function by which a node runs; None where kernels do, or a reference."""
    own = site.definition.function and site.definition.function(site)
    if own or not site.definition.expand or site.definition.native or UNKNOWN in site.types:
        return own or None
    return _body(site.node.op, site.node, site.types)


def _body(op: str, node: Node, kinds: tuple[ValueType | None, ...]) -> Graph:
    import onnx
    from onnx import defs, helper

    domain, plain = split_name(op)
    version = newest(domain)
    schema: Any = defs.get_schema(plain, version, "" if domain == DEFAULT else domain)
    if schema.has_function:
        return _plain(op, schema.since_version)
    proto = exported(op, node.inputs, node.outputs, node.attributes)
    types = [
        helper.make_tensor_type_proto(
            number_of(kind.dtype), [d.constant if d.constant is not None else str(d) for d in kind.shape]
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

"""Where nodes of an exported file stand in the source that it was exported from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from assay.formats.onnx_file import OnnxModel
from assay.graph.graph import Graph, Node


def modules(model: OnnxModel) -> dict[int, str]:
    """The path of modules, such as `encoder.layer.0.attention`, of each line whose node has one."""
    found = {}
    for node in _nodes(model.graph):
        scope = next((model.scopes[name] for name in node.outputs if name in model.scopes), "")
        path = _of_scope(scope) if scope else _of_name(node.name)
        if path:
            found[node.line] = path
    return found


def _nodes(graph: Graph) -> Iterator[Node]:
    for function in graph.functions:
        yield from _nodes(function)
    for node in graph.nodes:
        yield node
        for _, body in node.bodies:
            yield from _nodes(body)


def _of_scope(scope: str) -> str:
    """The path in what exporters write beside a node, its own name last: a list of names, or
    `name: class/name: class`.
    """
    if scope.startswith("["):
        try:
            names = json.loads(scope.replace("'", '"'))
        except ValueError:
            return ""
        return _path([str(name) for name in names][:-1])
    return _path([part.partition(":")[0].strip() for part in re.split(r"/(?=[^/]*:)", scope)][:-1])


def _of_name(name: str) -> str:
    """The names of modules in a node's own: `/encoder/encoder.0/MatMul`."""
    return _path(name.split("/")[:-1])


def _path(names: list[str]) -> str:
    """Names inside each other as one path; a name may begin with the one around it."""
    path = ""
    for name in filter(None, names):
        last = path.rpartition(".")[2]
        path += name.removeprefix(last) if last and name.startswith(f"{last}.") else f".{name}"
    return path.strip(".")

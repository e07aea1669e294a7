"""Real graphs keep all contracts, and their listings have a type for nearly every value and parse back."""

from __future__ import annotations

import pytest

import assay
from assay.formats.onnx_file import load_onnx
from assay.graph.graph import Graph
from assay.graph.listing import listing, parse
from assay.hub.pull import pull
from assay.ops.standard.typed import typed
from assay.runtime.model import analyse


def lines(graph: Graph) -> list[int]:
    """The lines of all nodes, as the graph says."""
    found = []
    for part in (*graph.functions, graph):
        for node in part.nodes:
            found.append(node.line)
            for _, body in node.bodies:
                found += lines(body)
    return found


@pytest.mark.parametrize("name", ["ppocr-rec", "silero-vad", "silero-vad-half", "magika"])
def test_a_listing_is_whole(name: str) -> None:
    assert assay.check(name).ok
    model = load_onnx(pull(name))
    graph = typed(model.graph, analyse(model))
    text = listing(graph)
    back = parse(text)
    assert back == graph and lines(back) == lines(graph) and listing(back) == text
    nodes = [node for node in graph.nodes if not node.op.startswith("If")]
    values = [value for node in nodes for value in node.outputs if value]
    assert sum(value in graph.types for value in values) >= 0.99 * len(values)
    shown = text.splitlines()
    for node in graph.nodes:
        assert f"{node.op}(" in shown[node.line - 1]

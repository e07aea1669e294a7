"""Which value is at which port, where nodes have too few or too many names or empty ones."""

from __future__ import annotations

from assay.graph.graph import Node
from toys import TOP, WRITE


def test_values_by_port() -> None:
    node = Node("toy_write", ("c", "x", "s"), ("c'1",))
    assert WRITE.named(node) == {"cache": "c", "x": "x", "slots": "s", "changed": "c'1"}
    assert list(WRITE.named(node)) == ["cache", "x", "slots", "changed"]
    assert TOP.named(Node("toy_top", ("x",), ("v", "i"))) == {"x": "x", "values": "v", "indices": "i"}


def test_ports_without_a_value_are_left_out() -> None:
    assert WRITE.named(Node("toy_write", ("c", "", "s"), ("",))) == {"cache": "c", "slots": "s"}
    assert WRITE.named(Node("toy_write", ("c",), ())) == {"cache": "c"}
    assert TOP.named(Node("toy_top", ("x", "more"), ("v",))) == {"x": "x", "values": "v"}

"""Graphs: what they derive from their nodes, and that they stay as they were made."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from assay.graph.graph import Graph, Node, ValueType
from assay.tensor.dtype import F32, Q4_1

FIRST = Node("f", ("x", "w", "x"), ("h",))
SECOND = Node("g", ("h", "x"), ("y", "z"))
GRAPH = Graph(
    "g", ("x",), ("w",), ("s",), (FIRST, SECOND), ("y",),
    {"x": ValueType.of(F32, "T", "T + past"), "w": ValueType.of(Q4_1, 3, 64), "s": ValueType.of(F32, "P")},
)  # fmt: skip


def test_uses() -> None:
    assert GRAPH.uses["x"] == (FIRST, SECOND)
    assert GRAPH.uses["h"] == (SECOND,)
    assert "s" not in GRAPH.uses


def test_symbols_and_sources() -> None:
    assert GRAPH.symbols == ("P", "T", "past")
    assert list(GRAPH.sources()) == [("input", "x"), ("weight", "w"), ("state", "s")]


def test_bytes() -> None:
    assert GRAPH.types["x"].nbytes({"T": 3, "past": 4}) == 3 * 7 * 4
    assert GRAPH.types["w"].nbytes({}) == 3 * 2 * 20
    assert str(GRAPH.types["x"]) == "float32[T, T + past]"
    with pytest.raises(ValueError, match="not whole blocks"):
        ValueType.of(Q4_1, 33).nbytes({})


def test_equal_types_are_one_key_in_any_process() -> None:
    """A type keeps its hash, and texts hash otherwise in each process."""
    kinds = [ValueType.of(F32, "T", 64), ValueType.of(F32, "T", 65), ValueType.of(Q4_1, "T", 64)]
    assert len({*kinds, *(ValueType.of(kind.dtype, *kind.shape) for kind in kinds)}) == 3
    code = (
        "import pickle, sys; from assay.graph.graph import ValueType; from assay.tensor.dtype import F32;"
        "kind = pickle.load(sys.stdin.buffer); sys.exit({ValueType.of(F32, 'T', 64): 7}.get(kind))"
    )
    for seed in ("1", "2"):
        child = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(kinds[0]),
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert child.returncode == 7


def test_frozen() -> None:
    attributes: dict[str, int | float] = {"k": 1}
    node = Node("f", (), (), attributes)
    attributes["k"] = 2
    assert node.attributes["k"] == 1
    with pytest.raises(TypeError):
        node.attributes["k"] = 3  # type: ignore[index]
    with pytest.raises(TypeError):
        GRAPH.types["x"] = GRAPH.types["w"]  # type: ignore[index]

"""Random nodes and small graphs on this engine and on ONNX Runtime: the same numbers.

Of every operator that both have, the newest version and those whose meaning was another are drawn, in
float32, int64 and a third element type. Long runs: differential/campaign.py.
"""

from __future__ import annotations

import numpy as np
import pytest

from assay.ops.standard import registry
from assay.ops.standard.older import REWRITES
from differential.draw import Bound, kernels, versions
from differential.models import differ
from differential.strategies import FAMILIES
from differential.verdict import judge_graph, judge_node

THIRD = ("double", "int32", "bool", "uint8", "float16", "int8", "uint64")
NOT_COMPARED = {
    op: reason
    for ops, reason in (
        (
            "Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike Dropout",
            "random numbers",
        ),
        (
            "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt SequenceConstruct"
            " SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence RegexFullMatch"
            " StringConcat StringNormalizer StringSplit TfIdfVectorizer",
            "values that are no tensors of numbers",
        ),
    )
    for op in ops.split()
}
"""Operators of both that no family draws, each with the reason."""
NEWEST = {"GlobalLpPool": 2, "MaxRoiPool": 1, "DequantizeLinear": 25, "QuantizeLinear": 25}
"""The last version that there is a kernel for, where ONNX Runtime's list has one that it doesn't find."""
OPERATORS = [op for op in sorted(FAMILIES) if registry.find(op) and versions(op)]


def meanings(op: str) -> list[int]:
    """The newest version, and the last ones of earlier meanings."""
    known = [version for version in versions(op) if version <= NEWEST.get(op, version)]
    last = {max((v for v in known if v <= end), default=0) for end in REWRITES.get(op, ())}
    return sorted({*last, known[-1]} - {0})


@pytest.mark.parametrize("op", OPERATORS)
def test_nodes(op: str) -> None:
    third = THIRD[OPERATORS.index(op) % len(THIRD)]
    wishes = ["float", "int64", third] * 2
    verdicts = [judge_node(op, v, seed, wish) for v in meanings(op) for seed, wish in enumerate(wishes)]
    assert [verdict.text for verdict in verdicts if verdict.finding] == []
    assert "equal" in {verdict.outcome for verdict in verdicts}, verdicts


@pytest.mark.parametrize("seed", range(0, 60, 12))
def test_graphs(seed: int) -> None:
    assert [verdict.text for at in range(seed, seed + 12) if (verdict := judge_graph(at)).finding] == []


def test_nothing_is_forgotten() -> None:
    both = {op for op in kernels() if registry.find(op) and versions(op)}
    assert both - set(FAMILIES) == set(NOT_COMPARED)


def test_comparison() -> None:
    one, near = np.float32([1, np.nan, np.inf, 0]), np.float32([1.0000001, np.nan, np.inf, 0])
    assert differ(one, one, Bound()) == "" and differ(one, near, Bound()) and not differ(one, near, Bound(1))
    assert not differ(one, near + np.float32([0, 0, 0, 0.5]), Bound(1, 1e9))
    for other in (
        one[:3],
        one.astype(np.float64),
        np.float32([1, 0, np.inf, 0]),
        np.float32([1, np.nan, 3, 0]),
    ):
        assert differ(one, other, Bound(1e9)) and differ(other, one, Bound(1e9))
    assert differ(one, np.float32([1, np.nan, np.inf, -0.0]), Bound())
    assert differ(np.array(1), np.array(2), Bound(100))


ONCE = (
    ("ConvTranspose", 11, 507, "int8"),
    ("AffineGrid", 20, 2, "double"),
    ("AffineGrid", 20, 110, "float"),
    ("BatchNormalization", 15, 2, "double"),
    ("Resize", 19, 2068, "uint64"),
    ("RoiAlign", 16, 4, "float"),
    ("RoiAlign", 16, 10, "float"),
    ("Shrink", 9, 2, "uint8"),
)
"""Cases that differed once."""


@pytest.mark.parametrize(("op", "version", "seed", "wish"), ONCE)
def test_what_differed_once(op: str, version: int, seed: int, wish: str) -> None:
    assert judge_node(op, version, seed, wish).outcome == "equal"


@pytest.mark.parametrize("seed", [88, 142, 206])
def test_graphs_that_were_refused_once(seed: int) -> None:
    """Sizes that data decides may be 0."""
    assert judge_graph(seed).outcome == "equal"

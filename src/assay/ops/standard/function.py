"""Operators in the words of others: a function for one node, written when its sizes are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from assay.graph.graph import AttributeValue, Graph, Literal, Node
from assay.ops.standard.schema import DEFAULT, SPELLING, newest, split_name
from assay.ops.standard.site import Site
from assay.tensor.dtype import I64, DType
from assay.tensor.narrow import numpy_of, outside

if TYPE_CHECKING:
    import onnx

Name: TypeAlias = str


class Function:
    """The nodes in the making. Values are names; `inputs` are the node's, "" for one that is absent."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.inputs = tuple(f"in{at}" if site.has(at) else "" for at in range(len(site.types)))
        self.nodes: list[Node] = []

    def __call__(self, op: str, *inputs: Name, **attributes: AttributeValue) -> Name:
        """A node with one output, by its name."""
        output = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(Node(op, inputs, (output,), attributes))
        return output

    def input(self, index: int) -> Name:
        """An input; "" where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def number(self, value: ArrayLike, dtype: DType = I64) -> Name:
        """A constant."""
        array = np.asarray(value).astype(numpy_of(dtype)).view(dtype.numpy)
        return self("Constant", value=Literal.of(dtype, np.ascontiguousarray(array).reshape(np.shape(value))))

    def cast(self, x: Name, dtype: DType, **more: AttributeValue) -> Name:
        return self("Cast", x, to=number_of(dtype), **more)

    def reshape(self, x: Name, *sizes: int) -> Name:
        return self("Reshape", x, self.number(np.array(sizes, np.int64)), allowzero=1)

    def slice(self, x: Name, axis: int, start: int, end: int, step: int = 1) -> Name:
        return self("Slice", x, *(self.number([each]) for each in (start, end, axis, step)))

    def moved(self, x: Name, order: Sequence[int]) -> Name:
        """With its axes in another order."""
        return x if list(order) == sorted(order) else self("Transpose", x, perm=tuple(order))


def written(
    write: Callable[[Function], Sequence[Name] | None], *, sized: bool = True
) -> Callable[[Site], Graph | None]:
    """A definition's function by what writes it: the outputs' names, or None where it can't; unless it isn't
    `sized`, where sizes are known.
    """

    def function(site: Site) -> Graph | None:
        if sized and not all(kind is None or kind.sizes is not None for kind in site.types):
            return None
        f = Function(site)
        made = write(f)
        if made is None:
            return None
        opsets = {domain: newest(domain) for domain in (DEFAULT, split_name(site.node.op)[0])}
        return Graph(site.node.op, f.inputs, (), (), tuple(f.nodes), tuple(made), {}, opsets)

    return function


def number_of(dtype: DType) -> int:
    """The standard's number of an element type."""
    from onnx import TensorProto

    return int(TensorProto.DataType.Value(SPELLING[dtype.name].upper()))


def exported(
    op: str, inputs: Sequence[Name], outputs: Sequence[Name], attributes: Mapping[str, AttributeValue]
) -> onnx.NodeProto:
    """A node as files have it."""
    from onnx import helper, numpy_helper

    domain, plain = split_name(op)
    given: dict[str, object] = dict(attributes)
    for key, value in attributes.items():
        if isinstance(value, Literal):
            given[key] = numpy_helper.from_array(outside(value.array(), value.dtype))
    return helper.make_node(plain, inputs, outputs, domain="" if domain == DEFAULT else domain, **given)

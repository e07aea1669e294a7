"""One node of a graph while its types are inferred, and afterwards: what rules and kernels see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.graph.dim import ANY, Dim
from assay.graph.graph import AttributeValue, Graph, Node, ValueType
from assay.tensor.dtype import DType

if TYPE_CHECKING:
    from assay.ops.standard.definition import Definition

Array = NDArray[np.generic]
Numbers = NDArray[np.float64]
"""An array in a reference, of any type: NumPy's arithmetic is the same for all."""
Shape = tuple[Dim, ...]
RANK = 64
"""The most axes that an array in NumPy has."""
UNRANKED: Shape = (ANY,)
UNKNOWN = ValueType(DType("unknown", 1, 1, "unknown"), UNRANKED)
"""The type of a value of which nothing is known before it is there."""
Made = ValueType | Shape | None
"""An output as a rule gives it: its type, or its shape where the type's variable says the rest; None where
nothing is known.
"""


InferBody = Callable[[str, Sequence[ValueType | None]], tuple[ValueType | None, ...]]


class Problem(NamedTuple):
    """What a rule found: the input that it is about (−1: none), and the dimension that is wrong, if any."""

    rule: str
    want: str
    got: str
    hint: str
    input: int
    dim: Dim | None


class Site:
    """A node in its operator's newest meaning, with types, known values and attributes.

    `types` and `values` are the inputs', None for an input that is absent or a value that isn't known.
    `values` of integers may be arrays of Dim. `outputs` and `made` are the outputs' types and known values.
    """

    def __init__(
        self,
        node: Node,
        definition: Definition,
        types: Sequence[ValueType | None],
        values: Sequence[Array | None],
        attributes: Mapping[str, AttributeValue],
    ) -> None:
        self.node = node
        self.definition = definition
        self.types = tuple(types)
        self.values = tuple(values)
        self.attributes = dict(attributes)
        self.outputs: tuple[ValueType | None, ...] = ()
        self.made: dict[int, Array] = {}
        self.problems: list[Problem] = []
        self.wanted: set[int] = set()
        self.memory = 1 << 62
        """Bytes that values may take where it runs."""
        self.trips = 1
        """How often the loops around run it, as far as their numbers say; a loop's rule makes it how often
        its body is run.
        """
        self.infer_body: InferBody = lambda attribute, types: ()
        """The types of the outputs of the graph in an attribute where its inputs have these types."""

    # What there is

    def __getitem__(self, attribute: str) -> AttributeValue:
        return self.attributes[attribute]

    def integer(self, attribute: str) -> int:
        """An integer attribute that has a value."""
        value = self.attributes[attribute]
        assert isinstance(value, int)
        return value

    def integers(self, attribute: str) -> tuple[int, ...] | None:
        """A list of integers, or None where it isn't given."""
        value = self.attributes.get(attribute)
        assert value is None or isinstance(value, tuple)
        return None if value is None else tuple(int(each) for each in value)  # type: ignore[arg-type]

    def numbers(self, attribute: str) -> tuple[float, ...]:
        """A list of floats; none where it isn't given."""
        value = self.attributes.get(attribute) or ()
        assert isinstance(value, tuple)
        return tuple(float(each) for each in value if isinstance(each, int | float))

    def number(self, attribute: str) -> float:
        """A float attribute that has a value."""
        value = self.attributes[attribute]
        assert isinstance(value, int | float)
        return float(value)

    def text(self, attribute: str) -> str:
        """A text attribute."""
        return str(self.attributes[attribute])

    def has(self, index: int) -> bool:
        """Whether an input is given."""
        return index < len(self.types) and self.types[index] is not None

    def type(self, index: int) -> ValueType:
        """The type of an input that is given."""
        kind = self.types[index]
        assert kind is not None
        return kind

    def dtype(self, index: int) -> DType:
        return self.type(index).dtype

    def shape(self, index: int) -> Shape:
        """The shape of an input that is given; rules are asked only when ranks are known."""
        return self.type(index).shape

    def rank(self, index: int) -> int:
        return len(self.type(index).shape)

    def sizes(self, index: int) -> tuple[int, ...]:
        """An input's shape in a specialised graph."""
        sizes = self.type(index).sizes
        assert sizes is not None
        return sizes

    def made_type(self, index: int = 0) -> ValueType:
        """An output's type, once it is inferred."""
        kind = self.outputs[index]
        assert kind is not None
        return kind

    def out(self, index: int = 0) -> tuple[int, ...]:
        """An output's shape in a specialised graph."""
        sizes = self.made_type(index).sizes
        assert sizes is not None
        return sizes

    def peek(self, index: int) -> Array | None:
        """An input's value where it is known."""
        return self.values[index] if index < len(self.values) else None

    def value(self, index: int) -> Array | None:
        """An input's value, which decides shapes here: where it comes from inputs of the model, a plan is
        made for each of their values.
        """
        found = self.peek(index)
        if found is None and self.has(index):
            self.wanted.add(index)
        return found

    def dims(self, index: int) -> list[Dim] | None:
        """The elements of an input that is a list of sizes, as `value`."""
        found = self.value(index)
        return None if found is None else [Dim.of(each) for each in found.reshape(-1).tolist()]

    def ints(self, index: int) -> list[int] | None:
        """The elements of an input that is a list of integers, none of them a symbol, as `value`."""
        found = self.dims(index)
        constants = [dim.constant for dim in found] if found is not None else [None]
        return None if None in constants else constants  # type: ignore[return-value]

    def body(self, attribute: str) -> Graph:
        """The graph in an attribute."""
        value = self.attributes[attribute]
        assert isinstance(value, Graph)
        return value

    # What is wrong

    def refuse(
        self, rule: str, *, want: object, got: object, hint: str = "", input: int = -1, dim: Dim | None = None
    ) -> None:
        """Record a violation of the contract."""
        self.problems.append(Problem(rule, str(want), str(got), hint, input, dim))

    def require(self, holds: bool | None, rule: str, *, want: object, got: object, **more: object) -> bool:
        """Record a violation where something is known not to hold."""
        broken = holds is not None and not holds  # NumPy's False is another
        if broken:
            self.refuse(rule, want=want, got=got, **more)  # type: ignore[arg-type]
        return not broken

    def want_rank(self, index: int, low: int, high: int | None = None) -> bool:
        """Whether an input, unless it is absent, has a rank in the range; `high` is `low` where it isn't
        given, −1 for no limit.
        """
        if not self.has(index):
            return True
        high, rank = low if high is None else high, self.rank(index)
        good = low <= rank and (high < 0 or rank <= high)
        want = f"{low}" if high == low else f"{low} or more" if high < 0 else f"{low} to {high}"
        return self.require(good, "wrong rank", want=want, got=f"{rank} in {self.type(index)}", input=index)

    def agree(self, left: Dim, right: Dim, what: str, input: int = -1, hint: str = "") -> Dim:
        """The dimension that two are both; a violation where they differ for all sizes above 0."""
        if left.differs(right):
            self.refuse(f"{what} disagree", want=str(left), got=right, input=input, dim=right, hint=hint)
        return right if right.constant is not None else left

    def broadcast(self, *shapes: Shape, first: int = 0) -> Shape:
        """The shape that several are stretched to together; `first` is the first one's input."""
        rank = max(map(len, shapes), default=0)
        result = [Dim.of(1)] * rank
        for number, shape in enumerate(shapes):
            for at, dim in enumerate(shape, start=rank - len(shape)):
                result[at] = self._stretched(result[at], dim, first + number, at - rank)
        return tuple(result)

    def _stretched(self, left: Dim, right: Dim, input: int, axis: int) -> Dim:
        if left == right or right.constant == 1:
            return left
        if left.constant == 1:
            return right
        if left.differs(right) and left.differs(1) and right.differs(1):
            self.refuse(
                "shapes can't be broadcast", want=f"{left} or 1 at axis {axis}",
                got=f"{right} in {self.type(input)}", input=input, dim=right,
                hint="align the shapes, or insert axes of size 1",
            )  # fmt: skip
        # A symbol beside a number above 1 is 1 or that number; two symbols are equal, or one of them is 1.
        if left.constant is not None or right.constant is not None:
            return left if left.constant is not None else right
        return left if str(left) <= str(right) else right

    def length(self, index: int) -> int | None:
        """The elements of an input that is a list; its rank is held to 1."""
        return self.shape(index)[0].constant if self.want_rank(index, 1) else None

    def single(self, index: int) -> None:
        """Hold an input that may be absent to one number."""
        if self.has(index):
            one = self.rank(index) < 2 and not any(size.differs(1) for size in self.shape(index))
            self.require(one, "not one number", want="[]", got=self.type(index), input=index)

    def match(self, index: int, *wanted: Dim, what: str = "sizes", hint: str = "") -> None:
        """Hold an input that may be absent against its shape."""
        if self.has(index) and self.want_rank(index, len(wanted)):
            for axis, (want, got) in enumerate(zip(wanted, self.shape(index), strict=True)):
                self.agree(want, got, f"{what} along axis {axis}" if wanted[1:] else what, index, hint)

    def natural(self, index: int, dims: Sequence[Dim]) -> None:
        """Hold the sizes in an input to 0 or more."""
        for dim in dims:
            self.require((dim.constant or 0) >= 0, "negative size", want="0 or more", got=dim, input=index)

    def fits(self, index: int, many: Dim, most: Dim, rule: str) -> None:
        """Hold a size of an input to at most another one."""
        sign = (most - many).sign
        good = None if sign is None else sign >= 0
        self.require(good, rule, want=f"at most {most}", got=many, input=index, dim=many)

    def stretches(self, index: int, shape: Shape, wanted: Sequence[Dim], rule: str) -> None:
        """Hold the last axes of an input, of that shape, to these sizes or 1."""
        for dim, want in zip(shape[::-1], wanted[::-1], strict=False):
            good = dim.constant == 1 or dim.equals(want) is not False
            got = f"{dim} in {self.type(index)}"
            self.require(good, rule, want=f"{want} or 1", got=got, input=index, dim=dim)

    def multiple(self, dim: Dim, of: Dim | int, rule: str, input: int = -1) -> None:
        """Hold a size to a multiple of another one."""
        whole, part = dim.constant, Dim.of(of).constant
        good = whole is None or not part or whole % part == 0
        self.require(good, rule, want=f"a multiple of {of}", got=dim, input=input, dim=dim)

    def bounded(self, index: int, numbers: Array | None, low: int, high: int | None, what: str) -> None:
        """Hold the elements of an input, where they are known, to a range."""
        if numbers is None or high is None or numbers.dtype == object:
            return
        found = numbers.astype(np.int64)
        bad = found[(found < low) | (found > high)].tolist()
        self.require(not bad, f"{what} out of range", want=f"{low} to {high}", got=bad[:4], input=index)

    def axis(self, axis: int, rank: int, what: str, of: object = "", input: int = -1) -> int | None:
        """An axis counted from 0 on; None, and a violation, where there is none such."""
        want, good = f"{-rank} to {rank - 1}{of and f', for {of}'}", -rank <= axis < rank
        self.require(good, f"{what} out of range", want=want, got=axis, input=input)
        return axis % rank if good else None

    def open_shape(self, rank: int | None) -> Shape:
        """A shape of that rank of which nothing else is known."""
        return UNRANKED if rank is None else tuple(self.unknown(str(axis)) for axis in range(rank))

    def unknown(self, label: str) -> Dim:
        """A size that only data decides."""
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in f"_{self.node.outputs[0]}_{label}")
        return Dim.of(name)


def elements(shape: Shape) -> Dim:
    """Elements of a shape."""
    return prod(shape, start=Dim.of(1))

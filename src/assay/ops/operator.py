"""The operator record: an operator's whole truth in one object.

The check, the documentation page, the error text, the kernel choice and the tests all read this object, so
that adding an operator touches one place.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import add, mul, truediv

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Node, ValueType
from assay.tensor.dtype import DType

Array = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Arrays = Sequence[Array]
Attributes = Mapping[str, AttributeValue]
Integers = np.ndarray[tuple[int, ...], np.dtype[np.integer]]
Dims = Mapping[str, Dim]


Reference = Callable[..., Array | tuple[Array, ...]]
"""A function of the inputs, in order, and of all attributes, by name: the output, or a tuple of several, in
float64 where the numbers are real. Changes none of its inputs.

float16, bfloat16 and quantised weights come as the float32 numbers that they stand for.
"""


def of_magnitudes(reference: Reference, *which: int) -> Reference:
    """The reference on the magnitudes of some of its inputs: what a sum that cancels is made of."""

    def terms(*inputs: Array, **attributes: AttributeValue) -> Array | tuple[Array, ...]:
        sized = (np.abs(array) if number in which else array for number, array in enumerate(inputs))
        return reference(*sized, **attributes)

    return terms


@dataclass(frozen=True)
class Port:
    """One input or output: the element types that it admits and its dimensions.

    `dims` is a pattern of expressions parted by spaces, over names that are bound where they first stand
    alone (or times a number: `32*B`) and must agree afterwards, and over integer attributes:
    `"T heads*head_dim"`. A leading `...` stands for any dimensions, the same wherever it occurs in one
    operator; their product is bound to the name `...`. An output that admits several types has that of the
    input `like`; an input may be like an earlier one.
    """

    name: str
    dtypes: tuple[DType, ...]
    dims: str
    doc: str
    like: str = ""
    panels: bool = False
    """Whether kernels want this input in panels of 32 columns (kernels/pack.py) and not as files hold it: it
    must be a weight of the graph.
    """


@dataclass(frozen=True)
class Attribute:
    """One attribute: its type, the default (None: it must be given), and the range or choices."""

    name: str
    kind: type[int] | type[float] | type[str] | type[bool]
    doc: str
    default: AttributeValue | None = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Relation:
    """What must hold between dimensions and attributes; `hint` says what usually causes a breach."""

    text: str
    holds: Callable[[Site], bool]
    hint: str = ""


@dataclass(frozen=True)
class Exactness:
    """How a kernel's result y relates to the reference's r, element by element.

    "bitwise": the same bits, the sign of zero and NaN's included.
    "ulp": both are NaN, or the same infinity, or |y − r| ≤ `ulp` · (the distance of neighbouring numbers of
    y's dtype at m), where m is the element's entry in `of`, by default |r|, and not below the least normal
    number. Where |r| is below the least normal number, an error of that number is admitted: steps on the way
    may have underflowed. Integers are equal.
    "seeded": a draw from the seed in the inputs: integers are equal, floats as with "ulp".
    """

    kind: str
    """"bitwise", "ulp" or "seeded"."""
    ulp: float | str = 0.0
    """It holds for cases of any size: where errors add up along a dimension, it is a formula over names of
    the ports' dimensions, such as `"K / 128 + 257"`.
    """
    why: str = ""
    of: Reference | None = None
    """m for each output, computed like the reference: for a sum that cancels, the magnitudes of its terms. Of
    a quantised weight with a minimum it gets |scale · integer| + |minimum|, since these may cancel too.
    """

    def limit(self, dims: Mapping[str, int]) -> float:
        """The ulps that a case with these dimensions may be off. Raises KeyError for a name that isn't among
        them, and ValueError or SyntaxError for what is no formula.
        """
        return _value(ast.parse(str(self.ulp), mode="eval").body, dims)


_ARITHMETIC = {ast.Add: add, ast.Mult: mul, ast.Div: truediv}


def _value(formula: ast.expr, dims: Mapping[str, int]) -> float:
    match formula:
        case ast.BinOp(left, sign, right) if type(sign) in _ARITHMETIC:
            return float(_ARITHMETIC[type(sign)](_value(left, dims), _value(right, dims)))
        case ast.Name(name):
            return dims[name]
        case ast.Constant(int() | float() as number):
            return number
    raise ValueError(f"neither sum, product nor quotient: {ast.unparse(formula)}")


BITWISE = Exactness("bitwise")


@dataclass(frozen=True)
class Address:
    """Kernel argument: where the value of a port lies; in a plan, that of a graph's value."""

    name: str


@dataclass(frozen=True)
class Code:
    """Kernel argument: where the machine code of another kernel lies, which this one calls."""

    kernel: str


@dataclass(frozen=True)
class Scratch:
    """Two words of kernel arguments: where the scratch of thread 0 lies, and the stride to the next
    thread's.
    """


SCRATCH = "scratch"
"""What stands for Scratch in `Kernel.arguments`."""
Argument = Address | Code | Scratch | Dim | int | float


@dataclass(frozen=True)
class Site:
    """A node that keeps its contract, with its types: `attributes` with the defaults, `dims` with what each
    name stands for. `rest` is what `...` stands for, and `dims["..."]` the product of it. In a plan `bound`
    has each symbol's largest value.
    """

    operator: Operator
    inputs: tuple[ValueType, ...]
    outputs: tuple[ValueType, ...]
    dims: Dims
    attributes: Attributes
    rest: tuple[Dim, ...] = ()
    bound: Mapping[str, int] = field(default_factory=dict)

    def most(self, dim: str) -> int:
        """The largest value that the dimension takes in this plan."""
        return self.dims[dim].at(self.bound)

    def integer(self, name: str) -> int:
        """An integer attribute, or a dimension that no symbol is in."""
        value = self.attributes[name] if name in self.attributes else self.dims[name].constant
        if not isinstance(value, int):
            raise TypeError(f"{name} is not an integer here: {value}")
        return value

    def rows(self, name: str) -> Dim:
        """The dimension that a kernel's `rows` names; of `...` the first, or 1 if there are none."""
        if name == "...":
            return self.rest[0] if self.rest else Dim.of(1)
        return self.dims[name]

    def dtype(self, port: str) -> DType:
        """That of an input."""
        return self.inputs[self.operator.ports.index(port)].dtype

    def argument(self, word: str) -> Argument:
        """What a word of `Kernel.arguments` stands for."""
        if word in self.operator.ports:
            return Address(word)
        value = self.attributes.get(word)
        if isinstance(value, int | float):
            return value
        return Scratch() if word == SCRATCH else Dim.of(word).substitute(self.dims)


@dataclass(frozen=True)
class Kernel:
    """One native implementation: when it applies, and the arguments that it takes after the work counter.

    All kernels of one operator and dtype give the same bits. Of those that apply the first is taken.

    Each word of `arguments` is a port, for its address; an attribute that is a number; "scratch", for two
    words; or an expression over dimensions, such as `32*B`. `only` is an input and the dtype that it must
    have, or an attribute and its value. `scratch` are the bytes of each thread.

    `rows` names the dimension, if any, that the threads divide equally (kernels/share.py): a thread writes
    its share of the rows of each output, which all begin with that dimension unless they are states; of
    inputs that begin with it the thread reads that share alone, of others anything. So neighbours in the tape
    that divide the same rows need no barrier. `...` is the first of the dimensions that it stands for.
    """

    name: str
    arguments: str | Callable[[Site], Sequence[Argument]]
    only: tuple[str, DType | AttributeValue] | None = None
    scratch: int | Callable[[Site], int] = 0
    rows: str = ""

    @property
    def when(self) -> str:
        """When it applies, in words."""
        return f"{self.only[0]} is {self.only[1]}" if self.only else "always"

    def each(self, name: str, values: Sequence[DType] | Sequence[str]) -> tuple[Kernel, ...]:
        """One for each dtype of the input, or value of the attribute, called `name`: `{}` in its own name."""
        return tuple(replace(self, name=self.name.format(value), only=(name, value)) for value in values)

    def applies(self, site: Site) -> bool:
        """Whether it can run this node."""
        if self.only is None:
            return True
        name, value = self.only
        return value == (site.attributes[name] if name in site.attributes else site.dtype(name))

    def takes(self, site: Site) -> Sequence[Argument]:
        """Its arguments here."""
        if isinstance(self.arguments, str):
            return [site.argument(word) for word in self.arguments.split()]
        return self.arguments(site)

    def scratch_bytes(self, site: Site) -> int:
        """Bytes of scratch that each thread needs here."""
        return self.scratch if isinstance(self.scratch, int) else self.scratch(site)


@dataclass(frozen=True, eq=False)
class Operator:
    """See the module. `in_place` maps an output to the state input that it is: the same memory, changed.

    `not_differentiable` names each input into which no gradient flows, with the reason.
    """

    name: str
    summary: str
    formula: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    reference: Reference
    exactness: Exactness
    kernels: tuple[Kernel, ...]
    since: int = 1
    attributes: tuple[Attribute, ...] = ()
    relations: tuple[Relation, ...] = ()
    numerics: tuple[str, ...] = ()
    not_differentiable: Mapping[str, str] = field(default_factory=dict)
    in_place: Mapping[str, str] = field(default_factory=dict)
    pointwise: str = ""
    """The operation's name in kernels/blocks.py, without its dtype, for operators that a chain may hold."""
    constant: str = ""
    """The float attribute that is such an operation's second operand."""

    @cached_property
    def ports(self) -> tuple[str, ...]:
        """The names of all inputs and outputs."""
        return tuple(port.name for port in (*self.inputs, *self.outputs))

    def named(self, node: Node) -> dict[str, str]:
        """The value at each port, inputs first. A port has none where the node's name for it is empty, or
        the node has too few; of a node with too many, the surplus isn't named.
        """
        pairs = [*zip(self.inputs, node.inputs, strict=False), *zip(self.outputs, node.outputs, strict=False)]
        return {port.name: name for port, name in pairs if name}

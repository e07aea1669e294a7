"""The record of an ONNX operator: what its schema says, and the rest of its contract, in one object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from assay.graph.graph import AttributeValue, Graph
from assay.ops.chain import Link
from assay.ops.operator import BITWISE, Exactness
from assay.ops.standard import schema as schemas
from assay.ops.standard.schema import Schema
from assay.ops.standard.site import Made, Site

if TYPE_CHECKING:
    from assay.ops.standard.emit import Emitter

Rule = Callable[[Site], Sequence[Made]]
"""The outputs' types from the inputs'; violations are told to the site."""
Reference = Callable[..., object]
"""NumPy's way: a function of the inputs (None for one that is absent) and of all attributes by name, to the
output or a tuple of several. Integers and bool exactly; float16, bfloat16 and narrower come as ml_dtypes has
them. An operator that holds graphs also gets `bodies`: for each attribute a function of the values of its
inputs to the list of its outputs.
"""
Lower = Callable[[Site, "Emitter"], None]
"""Writes a specialised node's kernel calls."""


@dataclass(frozen=True)
class Range:
    """What an attribute's value, or each of several, may be.

    `axis` is an input: −r … r − 1 + `extra` for its rank r, and the value becomes one from 0 on (`extra` more
    where the output has more axes).
    """

    low: float | None = None
    high: float | None = None
    choices: tuple[AttributeValue, ...] = ()
    axis: int | None = None
    extra: int = 0

    def __str__(self) -> str:
        if self.axis is not None:
            most = f"r − 1{f' + {self.extra}' if self.extra else ''}"
            return f"−r{f' − {self.extra}' if self.extra else ''} … {most}, r the rank of input {self.axis}"
        if self.choices:
            return " | ".join(map(str, self.choices))
        low, high = ("" if each is None else f"{each:g}" for each in (self.low, self.high))
        return f"{low} to {high}" if low and high else f"at least {low}" if low else f"at most {high}"


AXIS = Range(axis=0)
NATURAL, POSITIVE = Range(low=0), Range(low=1)
FLAG = Range(choices=(0, 1))


def one_of(*choices: AttributeValue) -> Range:
    return Range(choices=choices)


WAYS = {
    "kernel": "compiled kernels",
    "function": "a function of operators that run on kernels",
    "reference": "a reference of our own in NumPy, between two tapes of kernels",
    "delegated": "the standard's own evaluator, between two tapes of kernels",
}


@dataclass(frozen=True, eq=False)
class Definition:
    """See the module.

    An operator is run by the first of these that it has: `view`, the memory of its first input as it is;
    `pointwise`, as links of an elementwise chain; `lower`, kernel calls; the standard's function, where
    `expand` says that it is to be used; `reference`; or the standard's own evaluator.
    """

    name: str
    rule: Rule
    summary: str = ""
    formula: str = ""
    shapes: str = ""
    """The rule in words."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    reference: Reference | None = None
    lower: Lower | None = None
    pointwise: Callable[[Site], Sequence[Link]] | None = None
    natively: Callable[[Site], bool] = lambda site: True
    """Whether kernels can run a node whose sizes are known; else the reference does."""
    view: bool = False
    expand: bool = False
    function: Callable[[Site], Graph | None] | None = None
    """A function of our own by which a node is run, in place of all others; or None for one that isn't."""
    exactness: Exactness = BITWISE
    kernels: Sequence[tuple[str, str]] = ()
    """Kernels, and when each applies, in words."""
    numerics: tuple[str, ...] = ()
    not_differentiable: Mapping[str, str] = field(default_factory=dict)
    unranked: bool = False
    """Whether the rule wants to be asked where an input's rank isn't known."""
    sizes: bool = False
    """Whether the reference also works on arrays of Dim."""
    informed: bool = False
    """Whether the reference also takes the node's `site`, for the outputs' types."""
    given: Schema | None = None
    """The schema of a user's operator; the standard's are looked up."""

    @cached_property
    def native(self) -> bool:
        """Whether kernels run it, or nothing has to."""
        return bool(self.view or self.pointwise or self.lower)

    @cached_property
    def way(self) -> str:
        """How nodes are run, in one of four words that `WAYS` explains."""
        if self.native:
            return "kernel"
        if self.function or self.expand:
            return "function"
        return "reference" if self.reference else "delegated"

    def given_to_reference(self, inputs: Sequence[object]) -> list[object]:
        """The inputs as the reference takes them: None for each that is left out at the end."""
        ports = self.schema.inputs
        missing = 0 if ports and ports[-1].variadic else len(ports) - len(inputs)
        return [*inputs, *[None] * missing]

    @cached_property
    def schema(self) -> Schema:
        domain, _ = schemas.split_name(self.name)
        found = self.given or schemas.schema(self.name, schemas.newest(domain))
        assert found is not None, f"the standard has no operator {self.name}"
        return found


def outputs_of(made: object) -> tuple[object, ...]:
    """What a reference returned, as a tuple."""
    return made if isinstance(made, tuple) else (made,)

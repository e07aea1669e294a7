"""A node's attributes held against what the operator says of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite

from assay.errors import ContractError
from assay.graph.graph import AttributeValue
from assay.ops.operator import Attribute


@dataclass(frozen=True)
class Breach:
    """How a value breaks what its attribute says: the rule, and what was wanted."""

    rule: str
    want: str


def breach(attribute: Attribute, value: AttributeValue) -> Breach | None:
    """What is wrong with a value, or None. An int is no float and a bool is no int: nothing is converted."""
    if type(value) is not attribute.kind:
        return Breach("wrong kind of value", _describe(attribute))
    if isinstance(value, float) and not isfinite(value):
        return Breach("not finite", _describe(attribute))
    if isinstance(value, int | float) and not isinstance(value, bool):
        below = attribute.low is not None and value < attribute.low
        above = attribute.high is not None and value > attribute.high
        if below or above:
            return Breach("out of range", _describe(attribute))
    if attribute.choices and value not in attribute.choices:
        return Breach("not one of the choices", _describe(attribute))
    return None


def fill(
    attributes: tuple[Attribute, ...], given: Mapping[str, AttributeValue]
) -> tuple[dict[str, AttributeValue], list[ContractError]]:
    """The attributes with their defaults, those without a fault only, and one error per fault."""
    filled: dict[str, AttributeValue] = {}
    errors = []
    known = {attribute.name: attribute for attribute in attributes}
    for name, value in given.items():
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else ""
            want = " or ".join(known) if known else "no attributes"
            errors.append(ContractError(f"unknown attribute {name}", want=want, got=repr(value), hint=hint))
    for name, attribute in known.items():
        value_or_default = given.get(name, attribute.default)
        if value_or_default is None:
            want = _describe(attribute)
            errors.append(
                ContractError(f"attribute {name} missing", want=want, got="nothing", hint=attribute.doc)
            )
        elif problem := breach(attribute, value_or_default):
            rule = f"attribute {name}: {problem.rule}"
            got = repr(value_or_default)
            errors.append(ContractError(rule, want=problem.want, got=got, hint=attribute.doc))
        else:
            filled[name] = value_or_default
    return filled, errors


def range_of(attribute: Attribute) -> str:
    """The admitted values in words: `1 to 8`, `at least 0`, `a | b`, or nothing."""
    limits = (attribute.low, attribute.high)
    low, high = ("" if limit is None else str(attribute.kind(limit)) for limit in limits)
    if low and high:
        return f"{low} to {high}"
    if low or high:
        return f"at least {low}" if low else f"at most {high}"
    return " | ".join(attribute.choices)


def _describe(attribute: Attribute) -> str:
    kind = "finite float" if attribute.kind is float else attribute.kind.__name__
    limits = range_of(attribute)
    return f"{kind}, {limits}" if limits else kind

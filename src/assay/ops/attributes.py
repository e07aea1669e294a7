"""A node's attributes held against what the operator says of each."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from assay.errors import ContractError, near
from assay.graph.graph import AttributeValue
from assay.ops.operator import Attribute


def breach(attribute: Attribute, value: AttributeValue) -> str:
    """The rule that a value breaks, or nothing. An int is no float and a bool is no int."""
    if type(value) is not attribute.kind:
        return "wrong kind of value"
    if isinstance(value, float) and not isfinite(value):
        return "not finite"
    if isinstance(value, int | float) and not isinstance(value, bool):
        below = attribute.low is not None and value < attribute.low
        above = attribute.high is not None and value > attribute.high
        if below or above:
            return "out of range"
    if attribute.choices and value not in attribute.choices:
        return "not one of the choices"
    return ""


def fill(
    attributes: tuple[Attribute, ...], given: Mapping[str, AttributeValue]
) -> tuple[dict[str, AttributeValue], list[ContractError]]:
    """The attributes with their defaults, those without a fault only, and one error per fault."""
    filled: dict[str, AttributeValue] = {}
    errors = []
    known = {attribute.name: attribute for attribute in attributes}
    for name in (name for name in given if name not in known):
        want, hint = " or ".join(known) or "no attributes", near(name, known)
        errors.append(ContractError(f"unknown attribute {name}", want=want, got=repr(given[name]), hint=hint))
    for name, attribute in known.items():
        value = given.get(name, attribute.default)
        want, hint = describe(attribute), attribute.doc
        if value is None:
            errors.append(ContractError(f"attribute {name} missing", want=want, got="nothing", hint=hint))
        elif rule := breach(attribute, value):
            errors.append(ContractError(f"attribute {name}: {rule}", want=want, got=repr(value), hint=hint))
        else:
            filled[name] = value
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


def describe(attribute: Attribute) -> str:
    """What it takes, in words: `int, at least 1`."""
    kind = "finite float" if attribute.kind is float else attribute.kind.__name__
    limits = range_of(attribute)
    return f"{kind}, {limits}" if limits else kind

"""All operators by name. The built-in families are imported when an operator is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import ParamSpec

from assay.errors import ContractError, near
from assay.ops.operator import Operator
from assay.ops.record import check_record

P = ParamSpec("P")

FAMILIES = (
    "embedding", "linear", "norm", "elementwise", "rotary",
    "cache", "attention", "quantize", "select", "adjust", "sample", "lora",
)  # fmt: skip
"""Modules of assay.ops that register operators when they are imported."""

_operators: dict[str, Operator] = {}


def register(operator: Operator) -> Operator:
    """Add an operator, of a family here or of a user's package, and return it.

    Raises ContractError when the name is taken or the record is incomplete or contradicts itself.
    """
    place = f'operator "{operator.name}"'
    if operator.name in _operators:
        first, second = _operators[operator.name].reference.__module__, operator.reference.__module__
        got = f"registered by {first} already, now by {second}"
        raise ContractError("operator name taken", place=place, want="a name of its own", got=got)
    check_record(operator, place)
    _operators[operator.name] = operator
    return operator


def _registered(make: Callable[P, Operator]) -> Callable[P, Operator]:
    def define(*args: P.args, **fields: P.kwargs) -> Operator:
        return register(make(*args, **fields))

    return define


define = _registered(Operator)
"""Make an operator of these fields, register it and return it."""


def find(name: str) -> Operator | None:
    """The operator of that name, or None."""
    _load_families()
    return _operators.get(name)


def get(name: str) -> Operator:
    """The operator of that name. Raises ContractError, with near matches, when there is none."""
    operator = find(name)
    if operator:
        return operator
    hint = near(name, _operators) or "a package that adds operators must be imported first"
    raise ContractError("unknown operator", want="a registered operator", got=name, hint=hint)


def all_operators() -> tuple[Operator, ...]:
    """Every registered operator, by name."""
    _load_families()
    return tuple(_operators[name] for name in sorted(_operators))


@cache
def _load_families() -> None:
    for family in FAMILIES:
        import_module(f"assay.ops.{family}")

"""What an operator's record must hold before it is registered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from assay.errors import ContractError
from assay.ops import pattern
from assay.ops.attributes import breach, describe
from assay.ops.operator import SCRATCH, Attribute, Operator, Port
from assay.ops.pattern import Pattern
from assay.tensor.dtype import DType

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = ("name", "output")
"""Attribute names that Builder.op has for itself."""


def check_record(operator: Operator, place: str) -> None:
    """Raises ContractError with everything that is missing from the record or contradicts itself."""
    rules = (_texts, _names, _attributes, _ports, _maps)
    problems = [problem for rule in rules for problem in rule(operator)]
    if problems:
        hint = "assay.ops.operator says what each field means"
        want = "a record that is complete and agrees with itself"
        raise ContractError("operator refused", place=place, want=want, got="; ".join(problems), hint=hint)


def _texts(operator: Operator) -> Iterator[str]:
    texts = {"summary": operator.summary, "formula": operator.formula}
    described: tuple[Port | Attribute, ...] = (*operator.inputs, *operator.outputs, *operator.attributes)
    texts |= {f"{each.name}: doc": each.doc for each in described}
    texts |= {f"relation {n}: text": relation.text for n, relation in enumerate(operator.relations)}
    texts |= {f"{name}: reason": reason for name, reason in operator.not_differentiable.items()}
    texts |= {f"kernel {kernel.name}: name": kernel.name for kernel in operator.kernels}
    texts |= {f"numerics {n}": text for n, text in enumerate(operator.numerics)}
    yield from (f"{field} is empty" for field, text in texts.items() if not text.strip())
    yield from (f"no {field}" for field in ("outputs", "kernels") if not getattr(operator, field))
    if operator.since < 1:
        yield f"since is {operator.since}"
    if operator.exactness.kind not in ("bitwise", "ulp", "seeded"):
        yield f"exactness is {operator.exactness.kind!r}, not bitwise, ulp or seeded"
    if operator.exactness.kind == "ulp" and not operator.exactness.why:
        yield "exactness in ulp needs its reason"


def _names(operator: Operator) -> Iterator[str]:
    attributes = [attribute.name for attribute in operator.attributes]
    names = [*operator.ports, *attributes]
    kernels = [kernel.name for kernel in operator.kernels]
    odd = [name for name in (operator.name, *names) if not _NAME.fullmatch(name)]
    yield from (f"{name!r} is not a plain name" for name in odd)
    yield from (f"two ports or attributes are called {name}" for name in _twice(names))
    yield from (f"two kernels are called {name}" for name in _twice(kernels))
    yield from (f"an attribute can't be called {name}" for name in attributes if name in _RESERVED)


def _attributes(operator: Operator) -> Iterator[str]:
    for attribute in operator.attributes:
        if attribute.choices and attribute.kind is not str:
            yield f"{attribute.name}: choices are for text"
        if attribute.kind in (str, bool) and (attribute.low, attribute.high) != (None, None):
            yield f"{attribute.name}: a range is for numbers"
        if attribute.default is not None and breach(attribute, attribute.default):
            yield f"{attribute.name}: the default is not {describe(attribute)}"


def _ports(operator: Operator) -> Iterator[str]:
    patterns: dict[str, Pattern] = {}
    for port in (*operator.inputs, *operator.outputs):
        if not port.dtypes:
            yield f"{port.name}: no dtypes"
        try:
            patterns[port.name] = pattern.parse(port.dims)
        except ValueError as error:
            yield f"{port.name}: {error}"
            return
    yield from _rows(operator, patterns)
    yield from _bound(operator, patterns)
    inputs = [patterns[port.name] for port in operator.inputs]
    bound = {axis.binds for item in inputs for axis in item.axes}
    bound |= {attribute.name for attribute in operator.attributes if attribute.kind is int}
    bound |= {pattern.REST for item in inputs if item.rest}
    for name, item in patterns.items():
        names = item.names | ({pattern.REST} if item.rest else set())
        yield from (f"{name}: no input binds {unbound}" for unbound in sorted(names - bound))
    yield from _likes(operator)
    yield from _kernels(operator, bound)


def _rows(operator: Operator, patterns: Mapping[str, Pattern]) -> Iterator[str]:
    begins = {patterns[port.name].first for port in operator.inputs}
    outputs = [port.name for port in operator.outputs if port.name not in operator.in_place]
    for kernel in filter(lambda kernel: kernel.rows, operator.kernels):
        place, rows = f"kernel {kernel.name}", kernel.rows
        if rows not in begins:
            yield f"{place}: no input begins with its rows {rows}"
        else:
            others = [name for name in outputs if patterns[name].first != rows]
            yield from (f"{place}: {name} doesn't begin with its rows {rows}" for name in others)


def _kernels(operator: Operator, dims: set[str]) -> Iterator[str]:
    """`dims` are the names that the inputs bind."""
    attributes = {attribute.name: attribute for attribute in operator.attributes}
    numbers = {name for name, attribute in attributes.items() if attribute.kind is not str}
    known = {*operator.ports, *numbers, SCRATCH}
    dtypes = {port.name: port.dtypes for port in operator.inputs}
    for kernel in operator.kernels:
        if isinstance(kernel.arguments, str):
            for axis in pattern.parse(kernel.arguments).axes:
                if axis.text not in known and not axis.dim.symbols <= dims:
                    yield f"kernel {kernel.name}: nothing is called {axis.text}"
        if kernel.only:
            name, value = kernel.only
            if isinstance(value, DType):
                admitted = value in dtypes.get(name, ())
            else:
                admitted = name in attributes and not breach(attributes[name], value)
            if not admitted:
                yield f"kernel {kernel.name}: {name} is never {value}"


def _bound(operator: Operator, patterns: Mapping[str, Pattern]) -> Iterator[str]:
    names = {name for port in operator.inputs for name in (*patterns[port.name].names, pattern.REST)}
    try:
        limit = operator.exactness.limit(dict.fromkeys(names, 1))
    except (ValueError, SyntaxError):
        yield f"the bound {operator.exactness.ulp} is no formula"
    except KeyError as error:
        yield f"the bound {operator.exactness.ulp} needs {error.args[0]}, which is in no input's dimensions"
    else:
        if operator.exactness.kind == "ulp" and not limit > 0:
            yield "exactness in ulp needs a bound above 0"


def _likes(operator: Operator) -> Iterator[str]:
    known: dict[str, Port] = {}
    for port in (*operator.inputs, *operator.outputs):
        output = port in operator.outputs
        if port.like and port.like not in known:
            yield f"{port.name}: like {port.like}, which is no input{'' if output else ' before it'}"
        elif output and port.like and not set(known[port.like].dtypes) <= set(port.dtypes):
            yield f"{port.name}: lacks a dtype of {port.like}"
        elif output and len(port.dtypes) > 1 and not port.like:
            yield f"{port.name}: of several dtypes, like which input?"
        if not output:
            known[port.name] = port


def _maps(operator: Operator) -> Iterator[str]:
    inputs = {port.name: port for port in operator.inputs}
    outputs = {port.name: port for port in operator.outputs}
    strangers = [name for name in operator.not_differentiable if name not in inputs]
    yield from (f"not_differentiable: no input {name}" for name in strangers)
    yield from (f"two outputs change {name} in place" for name in _twice(operator.in_place.values()))
    for output, state in operator.in_place.items():
        if output not in outputs or state not in inputs:
            yield f"in_place: no output {output} or no input {state}"
        elif outputs[output].dims != inputs[state].dims or (
            outputs[output].like != state and outputs[output].dtypes != inputs[state].dtypes
        ):
            yield f"in_place: {output} has not the type of {state}"


def _twice(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]

"""Values that are known before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Literal, Node, ValueType
from assay.ops.standard.definition import Definition, outputs_of
from assay.ops.standard.site import Array, Site
from assay.tensor.dtype import STRING
from assay.tensor.narrow import outside

FOLDED = 1 << 16
"""The most elements of a value that is computed while types are inferred."""


def folded(site: Site) -> dict[int, Array]:
    """The outputs' values, where all inputs are known and NumPy's way is exact."""
    definition = site.definition
    whole = [kind.sizes if kind else None for kind in site.outputs]
    known = all(site.peek(index) is not None for index in range(len(site.types)) if site.has(index))
    exact = definition.reference and definition.exactness.kind == "bitwise" and not definition.informed
    if not (known and exact) or None in whole or not site.types:
        return {}
    if sum(prod(sizes) for sizes in whole if sizes is not None) > FOLDED:
        return {}
    if not definition.sizes and any(value is not None and symbolic(value) for value in site.values):
        return {}
    found = _computed(definition, site.values, site.attributes) or ()
    return {
        index: _plain(value, kind)
        for index, (value, kind) in enumerate(zip(found, site.outputs, strict=False))
        if kind
    }


def _plain(value: Array, kind: ValueType) -> Array:
    """Sizes as numbers, where no symbol is left."""
    if value.dtype != object or kind.dtype is STRING:
        return value
    numbers = [Dim.of(each).constant for each in value.reshape(-1).tolist()]
    return value if None in numbers else np.array(numbers, kind.dtype.numpy).reshape(value.shape)


def _computed(
    definition: Definition, values: Sequence[Array | None], attributes: Mapping[str, AttributeValue]
) -> tuple[Array, ...] | None:
    """What the reference makes of known values; None where it can't say, for symbols."""
    assert definition.reference
    try:
        with np.errstate(all="ignore"):
            found = outputs_of(definition.reference(*definition.given_to_reference(values), **attributes))
            return tuple(np.asarray(each) for each in found)
    except (ValueError, TypeError, ArithmeticError, IndexError):
        return None


def constant_of(node: Node) -> Array:
    """The value of a Constant node."""
    for key, value in node.attributes.items():
        if isinstance(value, Literal):
            return outside(value.array(), value.dtype)
        kind = {"f": np.float32, "i": np.int64, "s": object}[key.removeprefix("value_")[0]]
        return np.array(value, kind)
    raise ValueError("a Constant without a value")


def symbolic(value: Array) -> bool:
    """Whether sizes are among the elements that only symbols stand for."""
    return value.dtype == object and any(isinstance(each, Dim) for each in value.flat)

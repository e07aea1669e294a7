"""What a case is drawn from: a seed, and the element types that ONNX Runtime has kernels for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
import onnx.defs
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_state

Array = NDArray[np.generic]
Choice = TypeVar("Choice")
DTYPES = {
    "float": np.float32, "double": np.float64, "float16": np.float16, "bool": np.bool_,
    "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
}  # fmt: skip
"""The element types that are drawn, as ONNX spells them."""
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 17)
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0)


class Known(NamedTuple):
    """An input that is a constant of the graph, more often than not."""

    array: Array


class Bound(NamedTuple):
    """How far floats may be apart: `ulp` units of the type's precision at the greatest of both magnitudes and
    `of`. Both 0: the same numbers, and signs of zeros unless `zeros` says that they are free.
    """

    ulp: float = 0
    of: float | Array = 0.0
    zeros: bool = False


@dataclass
class Call:
    """One node: its inputs (None for one that is left out), attributes and number of outputs.

    `around` are values that are there for graphs in attributes, by name, and `opset` the standard's version
    where it isn't the operator's.
    """

    inputs: Sequence[Array | Known | None]
    attributes: Mapping[str, object] = field(default_factory=dict)
    outputs: int = 1
    bound: Bound = field(default_factory=Bound)
    around: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 0


@cache
def kernels() -> Mapping[str, Sequence[tuple[int, int, Mapping[str, frozenset[str]]]]]:
    """ONNX Runtime's kernels by operator: first and last version, and types by variable."""
    found: dict[str, list[tuple[int, int, Mapping[str, frozenset[str]]]]] = {}
    for each in ort_state.get_all_opkernel_def():
        if each.provider == "CPUExecutionProvider" and each.domain == "":
            types = {
                key: frozenset(text.removeprefix("tensor(").removesuffix(")") for text in texts)
                for key, texts in each.type_constraints.items()
            }
            found.setdefault(each.op_name, []).append((*each.version_range, types))
    return found


@cache
def versions(op: str) -> tuple[int, ...]:
    """The operator's versions that ONNX Runtime has kernels for."""
    history = {each.since_version for each in onnx.defs.get_all_schemas_with_history() if each.name == op
               and each.domain == ""}  # fmt: skip
    return tuple(
        sorted(v for v in history if any(low <= v <= high for low, high, _ in kernels().get(op, ())))
    )


def eps(dtype: np.dtype[np.generic]) -> float:
    """The distance of 1 and the next number."""
    return float(np.finfo(dtype).eps)


def most(*arrays: Array | Known | None) -> float:
    """The greatest finite magnitude among floats."""
    found = 0.0
    for each in arrays:
        array = np.asarray(each.array if isinstance(each, Known) else each)
        if each is not None and array.dtype.kind == "f":
            finite = np.abs(array[np.isfinite(array)].astype(np.float64))
            found = max(found, float(finite.max(initial=0)))
    return found


class Draw:
    """A stream of choices for one case of an operator's version."""

    def __init__(self, op: str, version: int, seed: int, wish: str = "") -> None:
        """`wish` is the element type that is taken wherever it may be."""
        self.op, self.version, self.wish = op, version, wish
        self.random = np.random.default_rng([seed, version, *op.encode()])
        self.special = self.chance(0.4)

    def chance(self, probability: float) -> bool:
        return bool(self.random.random() < probability)

    def pick(self, *choices: Choice) -> Choice:
        return choices[int(self.random.integers(len(choices)))]

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def type(self, variable: str = "T", kinds: str = "fiub") -> np.dtype[np.generic]:
        """An element type that a kernel takes for the variable; of these kinds, as NumPy has them."""
        found = {name for low, high, types in kernels().get(self.op, ()) if low <= self.version <= high
                 for name in types.get(variable, ())}  # fmt: skip
        names = [name for name in DTYPES if name in found and np.dtype(DTYPES[name]).kind in kinds]
        names = names or [name for name in DTYPES if np.dtype(DTYPES[name]).kind in kinds]
        if self.wish:
            return np.dtype(
                DTYPES[next((each for each in (self.wish, "float", "int64") if each in names), names[0])]
            )
        return np.dtype(DTYPES["float" if "float" in names and self.chance(0.5) else self.pick(*names)])

    def size(self, least: int = 0) -> int:
        return max(least, self.pick(*SIZES))

    def shape(self, low: int = 0, high: int = 4, least: int = 0) -> tuple[int, ...]:
        return tuple(self.size(least) for _ in range(self.integer(low, high)))

    def stretch(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that can be broadcast with another: fewer dimensions, or some of 1."""
        kept = shape[self.pick(0, 0, self.integer(0, len(shape))) :]
        return tuple(1 if self.chance(0.3) else size for size in kept)

    def axis(self, rank: int, extra: int = 0) -> int:
        return self.integer(-rank - extra, rank + extra - 1)

    def axes(self, rank: int, least: int = 0) -> list[int]:
        """Some axes, in any order, from either end."""
        many = self.integer(min(least, rank), rank)
        found = self.random.permutation(rank)[:many].tolist()
        return [axis - rank if self.chance(0.4) else axis for axis in found]

    def data(
        self, shape: Sequence[int], dtype: np.dtype[np.generic] | type, scale: float = 3.0,
        low: float | None = None, high: float | None = None,
    ) -> Array:  # fmt: skip
        """Elements of a type: floats around 0, with NaN, infinities and zeros of both signs in some cases;
        integers small, or to the type's ends; or all within bounds, if any is given.
        """
        dtype, shape = np.dtype(dtype), tuple(shape)
        if dtype.kind == "b":
            return np.asarray(self.random.random(shape) < 0.5)
        bounded = low is not None or high is not None
        if dtype.kind == "f":
            found = self.random.normal(0, scale, shape)
            if bounded:
                found = self.random.uniform(low or 0, 1 if high is None else high, shape)
            elif self.special:
                found = np.where(self.random.random(shape) < 0.2, self.random.choice(SPECIAL, shape), found)
            return np.asarray(found).astype(dtype)
        ends = np.iinfo(dtype)
        first = ends.min if low is None else int(low)
        last = ends.max if high is None else int(high)
        small = self.random.integers(max(first, -9 if first < 0 else first), min(last, 9), shape, np.int64,
                                     endpoint=True) if not bounded else None  # fmt: skip
        wide = self.random.integers(first, last, shape, dtype, endpoint=True)
        if small is None:
            return np.asarray(wide)
        return np.asarray(wide if self.special else small).astype(dtype)

    def places(
        self, shape: Sequence[int], size: int, dtype: type = np.int64, low: int | None = None
    ) -> Array:
        """Indices of an axis of that size, some from the end."""
        return np.asarray(self.random.integers(-size if low is None else low, size, tuple(shape))).astype(
            dtype
        )

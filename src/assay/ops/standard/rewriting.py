"""What rewriting old versions may ask of the walk over a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.ops.standard.site import Array, Shape
from assay.tensor.dtype import DType

if TYPE_CHECKING:
    from assay.ops.standard.infer import Inference


class Rewriting:
    """The graph that a node stands in, as far as it is known: of a fresh value nothing is."""

    def __init__(self, inference: Inference) -> None:
        self._inference = inference

    def constant(self, array: Array) -> str:
        return self._inference.constant(self.fresh("constant"), array)

    def fresh(self, stem: str) -> str:
        number = len(self._inference.types)
        while f"{stem}'{number}" in self._inference.types:
            number += 1
        name = f"{stem}'{number}"
        self._inference.types[name] = None
        return name

    def shape(self, name: str) -> Shape | None:
        kind = self._inference.types.get(name)
        return kind.shape if kind and kind.ranked else None

    def rank(self, name: str) -> int | None:
        shape = self.shape(name)
        return None if shape is None else len(shape)

    def dtype(self, name: str) -> DType:
        kind = self._inference.types[name]
        assert kind is not None
        return kind.dtype

    def value(self, name: str) -> Array | None:
        return self._inference.values.get(name)

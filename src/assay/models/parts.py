"""A model's weights as a file of another layout holds them: renamed, cut out of a wider one, turned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.errors import within
from assay.formats.quant import dequantise, quantise
from assay.formats.recipe import Recipe
from assay.formats.tensors import TensorFile, Wanted, quoted
from assay.models.decoder import Decoder, weights
from assay.tensor.dtype import F32, RARE

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True)
class Part:
    """Where a weight lies: in the tensor `source`, rows `first` … of `total`; `turned` where the file has it
    transposed, `plus` is added to it (in float32).
    """

    source: str
    first: int = 0
    total: int = 0
    turned: bool = False
    plus: float = 0.0


def stored(parts: Mapping[str, Part], wanted: Mapping[str, Wanted]) -> dict[str, Wanted]:
    """The tensors that the file must hold, for these weights."""
    found = {}
    for name, part in parts.items():
        shape = wanted[name].shape
        if part.total:
            shape = (part.total, *shape[1:])
        found[part.source] = replace(wanted[name], shape=shape[::-1] if part.turned else shape)
    return found


@dataclass(frozen=True)
class Layout:
    """What a file calls weights: the parts of a layer, and the others, where their names differ. Parts of one
    name lie in one tensor, their rows one after another in the order of `layer`. Norms are stored
    `norms_plus` too low, and the layers' maps transposed if `turned`.
    """

    layer: Mapping[str, str]
    rest: Mapping[str, str]
    layers_at: str = "model.layers"
    norms_plus: float = 0.0
    turned: bool = False

    def parts(self, model: Decoder) -> dict[str, Part]:
        """Where each weight lies."""
        wanted, order, rows = weights(model), [*self.layer], Counter[str]()
        sources = {name: self._source(name) for name in wanted}
        found: dict[str, Part] = {}
        for name in sorted(wanted, key=lambda name: order.index(_part(name)) if _part(name) in order else -1):
            source, shape = sources[name], wanted[name].shape
            turned = self.turned and name.startswith("blk.") and len(shape) == 2
            plus = self.norms_plus if "_norm." in name else 0.0
            found[name] = Part(source, rows[source], turned=turned, plus=plus)
            rows[source] += shape[0]
        fused = Counter(sources.values())
        return {
            name: replace(found[name], total=rows[source]) if fused[source] > 1 else found[name]
            for name, source in sources.items()
        }

    def _source(self, name: str) -> str:
        stem, kind = name.rsplit(".", 1)
        if not stem.startswith("blk."):
            return f"{self.rest.get(stem, stem)}.{kind}"
        part = _part(name)
        return f"{self.layers_at}.{stem.split('.')[1]}.{self.layer.get(part, part)}.{kind}"


def _part(name: str) -> str:
    """Of a layer, as "attn_q", or what isn't of one."""
    return name.split(".")[-2]


def neighbours(rows: NDArray[T], name: str, model: Decoder) -> NDArray[T]:
    """Rows [N, K] of a map of queries or keys whose heads' halves were rotated, for what rotates neighbours;
    other maps' rows as they are.
    """
    counts = {"attn_q": model.heads, "attn_k": model.kv_heads}
    heads = next((count for part, count in counts.items() if f".{part}." in name), None)
    if heads is None:
        return rows
    return rows.reshape(heads, 2, -1, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


class Weights:
    """A model's weights over a file, by the model's names; `computed` are those that no file holds.

    Vectors become float32: norms and biases are added in it. Matrices stay as they are stored, but for rare
    types, which become float32, and where a recipe is followed.
    """

    def __init__(
        self,
        file: TensorFile,
        parts: Mapping[str, Part],
        wanted: Mapping[str, Wanted],
        computed: Mapping[str, NDArray[np.generic]],
    ) -> None:
        self.file, self.parts, self._wanted, self.computed = file, parts, wanted, dict(computed)
        self.stored = {name: file.tensors[part.source].dtype for name, part in parts.items()}
        """Each weight's element type in the file."""
        self.dtypes = {
            name: F32 if len(wanted[name].shape) == 1 or dtype in RARE else dtype
            for name, dtype in self.stored.items()
        }
        """Each weight's element type in the graph."""

    def kinds(self) -> str:
        """The types of matrices in the file, and what they run as where that is another."""
        pairs = {
            (str(dtype), str(self.dtypes[name]))
            for name, dtype in self.stored.items()
            if len(self._wanted[name].shape) > 1
        }
        return ", ".join(
            stored if stored == runs else f"{stored} as {runs}" for stored, runs in sorted(pairs)
        )

    def follow(self, recipe: Recipe) -> None:
        """Round matrices as the recipe says. Raises RequestError where it can't be followed."""
        for name, dtype in self.stored.items():
            if len(shape := self._wanted[name].shape) > 1:
                self.dtypes[name] = recipe.becomes(name, dtype, shape, self._wanted)

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a weight, in the order of its rows."""
        if name in self.computed:
            return self.computed[name].reshape(-1).view(np.uint8)
        part, shape = self.parts[name], self._wanted[name].shape
        info, raw = self.file.tensors[part.source], self.file.raw(part.source)
        if part.turned:
            raw = np.ascontiguousarray(raw.view(f"V{info.dtype.size}").reshape(info.shape).T).view(np.uint8)
            raw = raw.reshape(-1)
        if part.total:
            row = info.nbytes // part.total
            raw = raw[row * part.first : row * (part.first + shape[0])]
        if self.dtypes[name] is not info.dtype or part.plus:
            values = dequantise(raw.reshape(-1), info.dtype, shape)
            with within(f"tensor {quoted(name)}"):
                raw = quantise(values + np.float32(part.plus) if part.plus else values, self.dtypes[name])
        return raw.reshape(-1)

"""Which tensors of a model are rounded to a block type, and to which."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from assay.errors import RequestError
from assay.formats.tensors import quoted
from assay.tensor.dtype import Q8_0, DType

KEPT = ("position_embd.weight", "token_types.weight")
"""Small matrices that stay as they are, as all vectors do."""


@dataclass(frozen=True)
class Recipe:
    """Matrices become `dtype`, the token table too; the matrix of logits, which may be that table, q8_0."""

    dtype: DType

    def becomes(self, name: str, dtype: DType, shape: tuple[int, ...], names: Collection[str]) -> DType:
        """What a tensor of this type becomes, in a model with such names, which are GGUF's. Raises
        RequestError for one that is quantised already, or whose rows aren't whole blocks.
        """
        if len(shape) == 1 or name in KEPT or not name.endswith(".weight"):
            return dtype
        logits = "output.weight" if "output.weight" in names else "token_embd.weight"
        wanted = Q8_0 if name == logits else self.dtype
        if dtype.block > 1:
            rule, want, got = "weights that are quantised already", "plain numbers", str(dtype)
        elif shape[-1] % wanted.block:
            rule, got = "a row is not whole blocks", f"{shape[-1]} columns"
            want = f"a multiple of {wanted.block} for {wanted}"
        else:
            return wanted
        raise RequestError(rule, place=f"tensor {quoted(name)}", want=want, got=got)

"""Which tensors of a model are rounded to a block type, and to which: as llama.cpp does for plain types."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from assay.errors import RequestError
from assay.formats.tensors import quoted
from assay.tensor.dtype import Q6_K, Q8_0, DType

KEPT = ("position_embd.weight", "token_types.weight")
"""Small matrices that stay as they are, as all vectors do."""


@dataclass(frozen=True)
class Recipe:
    """Matrices become `dtype`, the token table too. The matrix of logits, which may be the token table,
    becomes q6_k, or q8_0 where that is asked for or its rows aren't whole blocks of q6_k.

    `otherwise` is for other matrices whose rows aren't whole blocks, and `again` admits what is quantised.
    """

    dtype: DType
    otherwise: DType | None = None
    again: bool = False

    def becomes(self, name: str, dtype: DType, shape: tuple[int, ...], names: Collection[str]) -> DType:
        """What a tensor of this type becomes, in a model with such names, which are GGUF's. Raises
        RequestError for one that is quantised already, or whose rows aren't whole blocks.
        """
        if len(shape) == 1 or name in KEPT or not name.endswith(".weight"):
            return dtype
        place, wanted = f"tensor {quoted(name)}", self.dtype
        if dtype.block > 1 and not self.again:
            rule, want = "weights that are quantised already", "float32, float16 or bfloat16"
            hint = "they run as they are, without --quantize; assay quantize --again rounds them again"
            raise RequestError(rule, place=place, want=want, got=str(dtype), hint=hint)
        logits = "output.weight" if "output.weight" in names else "token_embd.weight"
        if name == logits and wanted.block > 1:
            wanted = Q8_0 if wanted is Q8_0 or shape[-1] % Q6_K.block else Q6_K
        elif self.otherwise and shape[-1] % wanted.block:
            wanted = self.otherwise
        if shape[-1] % wanted.block:
            want, got = f"a multiple of {wanted.block} for {wanted}", f"{shape[-1]} columns"
            hint = "assay quantize --otherwise TYPE takes another type for such rows"
            raise RequestError("a row is not whole blocks", place=place, want=want, got=got, hint=hint)
        return wanted

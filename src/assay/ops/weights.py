"""Element types that weights may have."""

from __future__ import annotations

from assay.tensor.dtype import BF16, F16, F32, QUANTISED

BLOCK_TYPES = QUANTISED
WEIGHT_TYPES = (F32, F16, BF16, *BLOCK_TYPES)

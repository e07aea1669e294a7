"""Weights in panels, as kernels and those who call them must agree on them. Imports nothing, so that a caller
needs no compiler.

A panel is 32 rows of a weight: columns of the product. Plain: panel[k, column]. Quantised: for each block of
32 along K a record: the integers, then 32 float16 scales, then 32 float16 minimums where the form has them.
Integers are unsigned, in groups of depth 4: byte 128 g + 4 column + depth. Of nibbles a byte keeps group g in
its low and group g + 4 in its high half.
"""

from __future__ import annotations

from dataclasses import dataclass

PANEL = 32
"""Columns of one panel of packed weights."""
BLOCK = 32
"""Elements of a quantised block along K."""
DEPTH = 256
"""Elements of K that a float product sums before it adds them to the rest."""
ROW_BLOCK = 192
"""Rows of one piece of work of a matrix product: their activations stay in the second-level cache."""
EDGE = 4 * PANEL * ROW_BLOCK
"""Scratch for the columns of a last panel that is cut."""
DEQUANTISED = 4 * PANEL * DEPTH
"""Scratch for a block of K of a panel, dequantised."""


@dataclass(frozen=True)
class Format:
    """How a block type lies in panels: bits of an integer, what was added to make it unsigned, and whether it
    has a minimum.
    """

    bits: int
    offset: int = 0
    minimum: bool = False

    @property
    def scales(self) -> int:
        """Where a record's scales begin: behind its integers."""
        return PANEL * BLOCK * self.bits // 8

    @property
    def minimums(self) -> int:
        """Where a record's minimums begin, if it has them."""
        return self.scales + 2 * PANEL

    @property
    def record(self) -> int:
        """Bytes of one record: a block of K of one panel."""
        return self.scales + 2 * PANEL * (2 if self.minimum else 1)


FORMATS = {
    "q4_0": Format(4, offset=8),
    "q4_1": Format(4, minimum=True),
    "q8_0": Format(8, offset=128),
}
"""Of each block type of tensor/dtype.py. Types may share a form; what a file holds is its reader's to know
(pack.py).
"""


def packed_bytes(dtype: str, size: int, rows: int, columns: int) -> int:
    """Bytes of a weight [rows, columns] in panels; `size` is that of a plain element."""
    panels = -(-rows // PANEL)
    if dtype in FORMATS:
        return panels * (columns // BLOCK) * FORMATS[dtype].record
    return panels * PANEL * columns * size

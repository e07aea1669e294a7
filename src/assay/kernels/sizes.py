"""Numbers that kernels and those who call them must agree on. Imports nothing, so that a caller needs no
compiler.
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

PAGE = 64
"""Tokens of one page of the cache: the block of attention."""
SUPER = 512
"""Keys of one superblock of attention."""
TOKENS = 16
"""Query tokens of one piece of attention's work."""

POSITIONS = 1 << 20
"""Tokens of the longest context: their rotary angles are exact (see the operator `rotary_table`)."""

LOAD, STORE, ADD, MUL, SILU = range(5)
REGISTERS = 8
"""Registers of a chain of elementwise operations."""
CHAIN_BLOCK = 256
"""Elements of one register."""
CHAIN_SCRATCH = 4 * CHAIN_BLOCK * REGISTERS


LINE = 64
"""Bytes of a cache line: apart by that much, two words don't slow each other down."""
ROWS = 1 << 40
"""More rows than any value has: a fault in row r leaves ROWS - r, so that the first row leaves the most."""
ENTRY_BYTES = 24
"""Bytes of one entry of a tape."""
OPERANDS = 64
"""Lines of operands of the probes of arithmetic: they stay in the first-level cache."""


class CONTROL:
    """Offsets in a team's control block; see kernels/team.py."""

    EPOCH, ARRIVED, PASSED, SLEEPERS, TAPE = (LINE * index for index in range(5))
    LENGTH, COUNTERS, STOP, SYSCALL, FUTEX, YIELD, FAULT = (4 * LINE + 8 * index for index in range(1, 8))
    BYTES = 5 * LINE


@dataclass(frozen=True)
class Format:
    """A block format as packed: bits of an integer, what was added to make it unsigned, whether it has a
    minimum.
    """

    bits: int
    offset: int
    minimum: bool

    @property
    def integers(self) -> int:
        """Bytes of one record's integers."""
        return PANEL * BLOCK * self.bits // 8

    @property
    def record(self) -> int:
        """Bytes of one record: a block of K of one panel."""
        return self.integers + 2 * PANEL * (2 if self.minimum else 1)


Q4_0 = Format(4, 8, False)
Q4_1 = Format(4, 0, True)
Q8_0 = Format(8, 128, False)
FORMATS = {"q4_0": Q4_0, "q4_1": Q4_1, "q8_0": Q8_0}


def packed_bytes(dtype: str, size: int, rows: int, columns: int) -> int:
    """Bytes of a weight [rows, columns] in panels; `size` is that of a plain element."""
    panels = -(-rows // PANEL)
    if dtype in FORMATS:
        return panels * (columns // BLOCK) * FORMATS[dtype].record
    return panels * PANEL * columns * size


def attention_scratch(group: int, head_dim: int) -> int:
    """Scratch of one thread of attention with `group` query heads to a key head: queries, a page's keys and
    values, scores, one block's output, two accumulators and their states.
    """
    rows = TOKENS * group
    return 4 * (2 * PAGE * head_dim + rows * (4 * head_dim + PAGE + 6))

"""Weights in panels, as kernels and those who call them must agree on them. A caller needs no compiler.

A panel is 32 rows of a weight: columns of the product. Plain: panel[k, column]. Quantised: blocks of 32 along
K, each with its integers, then scales, then minimums where the form has them, each [group, column].

Integers of b bits are unsigned. Four of a column along K are a group: a word, a byte for each integer. The
eight groups of a block lie in b words, as `parts` says; word w of a column is at 128 w + 4 column.

Scales and minimums are float16, and a record is one block. Or they are int8, and stand for their product with
a float16 of the record, which is then a super-block of 256: eight blocks, 32 such scales, 32 such minimums.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

from assay.tensor.dtype import IQ4_CODES

PANEL = 32
"""Columns of one panel of packed weights."""
BLOCK = 32
"""Elements of a quantised block along K, as activations have them."""
DEPTH = 256
"""Elements of K that a float product sums before it adds them to the rest."""
ROW_BLOCK = 192
"""Rows of one piece of work of a matrix product: their activations stay in the second-level cache."""
EDGE = 4 * PANEL * ROW_BLOCK
"""Scratch for the columns of a last panel that is cut."""
DEQUANTISED = 4 * PANEL * DEPTH
"""Scratch for a block of K of a panel, dequantised."""


class Part(NamedTuple):
    """Some bits of each of a group's integers: the word that they are in, their first place in a byte there,
    how many they are, how many of the integer are below them.
    """

    word: int
    shift: int
    bits: int
    below: int


def parts(bits: int) -> tuple[tuple[Part, ...], ...]:
    """Where integers of so many bits lie, of each of the eight groups: whole, or in two parts.

    Of at most 4 bits, words hold as many whole groups as there is room for; of 3 bits two are left, which
    fill the rest. Of more, word w < 4 holds group w whole, and above it the high bits of group w + 4, as many
    as there is room for; their low bits fill the other words.
    """
    if bits <= 4:
        whole = [[Part(group % bits, group // bits * bits, bits, 0)] for group in range(8 // bits * bits)]
        rest = [[Part(0, 6, 2, 0), Part(1, 6, 1, 2)], [Part(2, 6, 2, 0), Part(1, 7, 1, 2)]]
        return tuple(map(tuple, (*whole, *rest[: 8 - len(whole)])))
    words, low = bits - 4, 2 * bits - 8
    whole = [[Part(group, 0, bits, 0)] for group in range(4)]
    high = [[Part(group, bits, 8 - bits, low)] if bits < 8 else [] for group in range(4)]
    rest = [[Part(4 + g % words, low * (g // words), low, 0)] for g in range(4)]
    return tuple(map(tuple, (*whole, *(a + b for a, b in zip(high, rest, strict=True)))))


def tables(bits: int) -> list[Part]:
    """The first parts of all groups, and the second where there are any, as kernels read them: each number
    has a byte for each group. A group without such a part has 0 bits of word 0.
    """
    found = zip_longest(*parts(bits), fillvalue=Part(0, 0, 0, 0))
    return [Part(*(int.from_bytes(each, "little") for each in zip(*group, strict=True))) for group in found]


@dataclass(frozen=True)
class Format:
    """How a block type lies in panels: bits of an integer, what was added to make it unsigned, whether there
    are minimums, the blocks of a record, the integers that share a scale. With codes, integers stand for
    those, and it is they that were made unsigned.
    """

    bits: int
    offset: int = 0
    minimum: bool = False
    blocks: int = 1
    group: int = BLOCK
    codes: tuple[int, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether the numbers that are multiplied have more than 6 bits."""
        return self.bits > 6 or bool(self.codes)

    @property
    def unsigned_codes(self) -> tuple[int, ...]:
        """The codes, made unsigned."""
        return tuple(code + self.offset for code in self.codes)

    @property
    def groups(self) -> int:
        """Scales of one column of a block."""
        return BLOCK // self.group

    @property
    def super_block(self) -> bool:
        """Whether scales are int8, beside a float16 of the record."""
        return self.blocks > 1

    @property
    def scales(self) -> int:
        """Where a block's scales begin: behind its integers."""
        return PANEL * BLOCK * self.bits // 8

    @property
    def numbers(self) -> tuple[tuple[int, int], ...]:
        """Where scales, and minimums if there are any, begin: in a block, and as float16 in a record."""
        own = [self.scales + self._numbers * kind for kind in range(1 + self.minimum)]
        shared = [self.blocks * self.block + 2 * PANEL * kind for kind in range(1 + self.minimum)]
        return tuple(zip(own, shared if self.super_block else own, strict=True))

    @property
    def block(self) -> int:
        """Bytes of one block of a panel."""
        return self.scales + self._numbers * (1 + self.minimum)

    @property
    def record(self) -> int:
        """Bytes of one record: as much of K of one panel as a file's block."""
        return self.blocks * self.block + (2 * PANEL * (1 + self.minimum) if self.super_block else 0)

    @property
    def pace(self) -> int:
        """Bytes of a record for each of its blocks: a panel's for 32 of K."""
        return self.record // self.blocks

    @property
    def _numbers(self) -> int:
        """Bytes of a block's scales, or of its minimums."""
        return self.groups * PANEL * (1 if self.super_block else 2)


FORMATS = {
    "q4_0": Format(4, offset=8),
    "q4_1": Format(4, minimum=True),
    "q5_0": Format(5, offset=16),
    "q5_1": Format(5, minimum=True),
    "q8_0": Format(8, offset=128),
    "iq4_nl": Format(4, offset=128, codes=IQ4_CODES),
    "q2_k": Format(2, minimum=True, blocks=8, group=16),
    "q3_k": Format(3, offset=4, blocks=8, group=16),
    "q4_k": Format(4, minimum=True, blocks=8),
    "q5_k": Format(5, minimum=True, blocks=8),
    "q6_k": Format(6, offset=32, blocks=8, group=16),
    "iq4_xs": Format(4, offset=128, blocks=8, codes=IQ4_CODES),
}
"""Of each block type of tensor/dtype.py. Types may share a form; what a file holds is its reader's to know
(readers.py).
"""


def packed_bytes(dtype: str, size: int, rows: int, columns: int) -> int:
    """Bytes of a weight [rows, columns] in panels; `size` is that of a plain element."""
    panels = -(-rows // PANEL)
    if dtype in FORMATS:
        return panels * (columns // BLOCK) * FORMATS[dtype].pace
    return panels * PANEL * columns * size

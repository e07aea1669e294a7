"""Numbers that kernels and those who call them must agree on. Imports nothing, so that a caller needs no
compiler.
"""

from __future__ import annotations

PAGE = 64
"""Tokens of one page of the cache: the block of attention."""
SUPER = 512
"""Keys of one superblock of attention."""
TOKENS = 16
"""Query tokens of one piece of attention's work."""

MOST_TOP = 20
"""The most alternatives of a token of which log-probabilities are given."""
POSITIONS = 1 << 20
"""Tokens of the longest context: their rotary angles are exact (see the operator `rotary_table`)."""


def attention_scratch(group: int, head_dim: int) -> int:
    """Scratch of one thread of attention with `group` query heads to a key head: queries, a page's keys and
    values, scores, one block's output, two accumulators and their states.
    """
    rows = TOKENS * group
    return 4 * (2 * PAGE * head_dim + rows * (4 * head_dim + PAGE + 6))

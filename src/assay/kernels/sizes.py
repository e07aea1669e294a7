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

SUM, PRODUCT, GREATEST, LEAST, SUM_SQUARES, SUM_SIZES = range(6)
"""What makes one element of two, or, with the last ones, of many."""
INT64, UINT64, FLOAT32, FLOAT64 = range(4)
"""The types of the kernels that work on single elements; others are converted before and after."""
REDUCE_SCRATCH = 16 * 256
"""Bytes of one thread of a reduction."""

LINE = 64
"""Bytes of a cache line: apart by that much, two words don't slow each other down."""

PLACE, SPREAD, REPEAT, GATHER, SCATTER = range(5)
"""What stands for a block function in an instruction of a chain (elementwise.py)."""
STRETCH = 256
"""Elements of a block."""
REGISTERS = 24
"""Blocks in scratch that a chain may have, and blocks in place."""
BLOCK_PITCH = 8 * STRETCH + LINE
"""Bytes from one block in scratch to the next, which doesn't want the same lines of the cache."""
AXES = 32
"""Dimensions of a view."""
CHAIN_HEAD = -(-8 * (2 * REGISTERS + 4 + AXES) // LINE) * LINE
CHAIN_SCRATCH = CHAIN_HEAD + BLOCK_PITCH * REGISTERS
ROWS = 1 << 40
"""More rows than any value has: a fault in row r leaves ROWS - r, so that the first row leaves the most."""
ENTRY_BYTES = 24
"""Bytes of one entry of a tape."""


class CONTROL:
    """Offsets in a team's control block; see kernels/team.py."""

    STATE, SLEEPERS, TAPE, FAULT = (LINE * index for index in range(4))
    FLAGS, CPU, GETCPU, GETAFFINITY, SETAFFINITY = (3 * LINE + 8 * i for i in range(1, 6))
    LENGTH, COUNTERS, FIRST, STOP, SYSCALL, FUTEX, YIELD = (2 * LINE + 8 * index for index in range(1, 8))
    BYTES, PLACE = 4 * LINE, 3 * LINE
    """Of the block, and of each thread's own place behind it."""


def attention_scratch(group: int, head_dim: int) -> int:
    """Scratch of one thread of attention with `group` query heads to a key head: queries, a page's keys and
    values, scores, one block's output, two accumulators and their states.
    """
    rows = TOKENS * group
    return 4 * (2 * PAGE * head_dim + rows * (4 * head_dim + PAGE + 6))


ACTIVATIONS = (
    "Sigmoid", "Tanh", "Relu", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
    "Softsign", "Softplus",
)  # fmt: skip
"""Of recurrent layers (recurrent.py), by code."""
(
    SIGMOID, TANH, RELU, AFFINE, LEAKY, THRESHOLDED, SCALED_TANH, HARD_SIGMOID, ELU, SOFTSIGN, SOFTPLUS,
) = range(len(ACTIVATIONS))  # fmt: skip

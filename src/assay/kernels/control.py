"""Where a team's threads, and those who start them, find what they share. Imports nothing, so that a caller
needs no compiler.
"""

from __future__ import annotations

LINE = 64
"""Bytes of a cache line: apart by that much, two words don't slow each other down."""
ROWS = 1 << 40
"""More rows than any value has: a fault in row r leaves ROWS - r, so that the first row leaves the most."""
ENTRY_BYTES = 24
"""Bytes of one entry of a tape."""


class CONTROL:
    """Offsets in a team's control block; see kernels/team.py."""

    EPOCH, ARRIVED, PASSED, SLEEPERS, TAPE = (LINE * index for index in range(5))
    LENGTH, COUNTERS, STOP, SYSCALL, FUTEX, YIELD, FAULT = (4 * LINE + 8 * index for index in range(1, 8))
    BYTES = 5 * LINE

"""A live allocation; red zones and poison, which a pool in guard mode writes into it so that stray reads and
writes show.

A block lies as  [ start … zone … | address … nbytes … | zone … end ).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

ZONE = 64
"""Bytes of a red zone at least."""

_ZONE_BYTE = 0xA5
_FRESH_BYTE = 0xFF  # a NaN in every float type: what was never written poisons the result
_STALE_BYTE = 0xCB


@dataclass(frozen=True)
class Block:
    """`nbytes` at `address`, inside the reserved addresses [start, end)."""

    owner: str
    address: int
    nbytes: int
    start: int
    end: int

    def arm(self) -> None:
        """Fill zones, and NaNs where the owner will write."""
        ctypes.memset(self.start, _ZONE_BYTE, self.end - self.start)
        ctypes.memset(self.address, _FRESH_BYTE, self.nbytes)

    def breach(self) -> str:
        """Where the zones were written, as text; empty when they are whole."""
        zone, past = bytes([_ZONE_BYTE]), self.address + self.nbytes
        under = len(ctypes.string_at(self.start, self.address - self.start).lstrip(zone))
        over = len(ctypes.string_at(past, self.end - past).rstrip(zone))
        sides = [f"as far as {under} bytes before its start"] if under else []
        sides += [f"as far as {over} bytes past its end"] if over else []
        return f"{self} was written {' and '.join(sides)}" if sides else ""

    def retire(self) -> None:
        """Fill the block, which was just freed, so that whoever still reads it sees it."""
        ctypes.memset(self.start, _STALE_BYTE, self.end - self.start)

    def __str__(self) -> str:
        return f"{self.owner}: {self.nbytes:,} bytes at {self.address:#x}"

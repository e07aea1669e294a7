"""Red zones and poison: what a pool in guard mode writes into memory so that stray reads and writes show.

A block lies as  [ start … zone … | address … nbytes … | zone … end ).
"""

from __future__ import annotations

import ctypes

ZONE = 64
"""Bytes of a red zone at least."""

_ZONE_BYTE = 0xA5
_FRESH_BYTE = 0xFF  # a NaN in every float type: what was never written poisons the result
_STALE_BYTE = 0xCB


def arm(start: int, address: int, nbytes: int, end: int) -> None:
    """Fill a block that was just allocated: zones, and NaNs where the owner will write."""
    ctypes.memset(start, _ZONE_BYTE, address - start)
    ctypes.memset(address, _FRESH_BYTE, nbytes)
    ctypes.memset(address + nbytes, _ZONE_BYTE, end - address - nbytes)


def breach(start: int, address: int, nbytes: int, end: int) -> str:
    """Where the zones were written, as text; empty when they are whole."""
    zone = bytes([_ZONE_BYTE])
    front = ctypes.string_at(start, address - start)
    back = ctypes.string_at(address + nbytes, end - address - nbytes)
    under, over = len(front.lstrip(zone)), len(back.rstrip(zone))
    sides = [f"as far as {under} bytes before its start"] if under else []
    sides += [f"as far as {over} bytes past its end"] if over else []
    return " and ".join(sides)


def retire(start: int, end: int) -> None:
    """Fill a block that was just freed, so that whoever still reads it sees it."""
    ctypes.memset(start, _STALE_BYTE, end - start)

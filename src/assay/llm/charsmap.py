"""SentencePiece's table of characters and of what replaces them."""

from __future__ import annotations

import numpy as np
from tokenizers import NormalizedString

LONGEST = 64
"""Bytes of a key, and of what replaces it: in SentencePiece's own tables they are half as many."""


class Charsmap:
    """A normalizer as the library calls one: of the table's keys that a text goes on with, the longest is
    replaced.

    The table is the length of a trie in bytes, its 32-bit units, and texts that end with a NUL. A unit with
    bit 31 set says where a text begins. Others have a label in bits 0 to 7, and from bit 10 on an offset,
    times 256 if bit 9 is set: child c of place p is at p ^ offset ^ c; at p ^ offset a text, if bit 8 is set.
    """

    def __init__(self, raw: bytes) -> None:
        """Raises ValueError, which says what is wrong, for a table that leads out of its bounds."""
        size = int.from_bytes(raw[:4], "little")
        if not 0 < size <= len(raw) - 4 or size % 1024 or raw[-1]:
            raise ValueError("a trie of whole blocks is wanted, and texts that end")
        units, texts = np.frombuffer(raw[4 : 4 + size], "<u4").astype(np.int64), raw[4 + size :]
        places = np.arange(len(units)) ^ (units >> 10 << ((units & 512) >> 6))
        inner = units < 1 << 31
        if not inner[0] or places[inner].max() >= len(units):
            raise ValueError("a trie that leads out of itself")
        begins = units[places[inner & (units & 256 > 0)]] & 0x7FFF_FFFF
        ends = np.flatnonzero(np.frombuffer(texts + bytes(LONGEST), np.uint8) == 0)
        if (
            begins.max(initial=0) >= len(texts)
            or (ends[np.searchsorted(ends, begins)] - begins).max(initial=0) > LONGEST
        ):
            raise ValueError(f"a replacement that isn't there, or has more than {LONGEST} bytes")
        self._units, self._places, self._texts = units.tolist(), places.tolist(), texts

    def normalize(self, text: NormalizedString) -> None:
        """Replace what is to be replaced."""
        before, after, at = str(text.normalized).encode(), bytearray(), 0
        while at < len(before):
            end, new = self._longest(before, at)
            after += new
            at = end
        text.clear()
        text.append(after.decode("utf-8", "replace"))

    def _longest(self, text: bytes, at: int) -> tuple[int, bytes]:
        """The end of the longest key that begins here, and what replaces it; else of the character."""
        end = at + 1
        while end < len(text) and text[end] & 0xC0 == 0x80:
            end += 1
        new, base = text[at:end], self._places[0]
        for position, byte in enumerate(text[at : at + LONGEST], at + 1):
            place = base ^ byte
            unit = self._units[place]
            if not byte or unit & 0x8000_00FF != byte:
                break
            base = self._places[place]
            if unit & 256:
                begin = self._units[base] & 0x7FFF_FFFF
                end, new = position, self._texts[begin : self._texts.index(0, begin)]
        return end, new

"""The symbols of an object file, read from its ELF symbol table."""

from __future__ import annotations

import struct
from dataclasses import dataclass

_SYMBOL_TABLE = 2
_GLOBAL, _WEAK = 1, 2


@dataclass(frozen=True)
class Symbols:
    """Names that the file defines for others, and names that it wants from others."""

    exported: frozenset[str]
    undefined: frozenset[str]


def symbols(content: bytes) -> Symbols:
    """The symbols of a 64-bit little-endian ELF object. Raises ValueError for anything else."""
    if content[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF file")
    start, size, count = struct.unpack_from("<Q10xHH", content, 40)
    headers = [struct.unpack_from("<IIQQQQIIQQ", content, start + size * index) for index in range(count)]
    tables = [header for header in headers if header[1] == _SYMBOL_TABLE]
    if len(tables) != 1:
        raise ValueError(f"{len(tables)} symbol tables")
    (table,) = tables
    at, length, names, entry = table[4], table[5], headers[table[6]], table[9]
    exported, undefined = set(), set()
    for offset in range(at + entry, at + length, entry):
        name_at, info, _, section = struct.unpack_from("<IBBH", content, offset)
        first = names[4] + name_at
        name = content[first : content.index(b"\0", first)].decode()
        if section == 0:
            undefined.add(name)
        elif info >> 4 in (_GLOBAL, _WEAK):
            exported.add(name)
    return Symbols(frozenset(exported), frozenset(undefined))

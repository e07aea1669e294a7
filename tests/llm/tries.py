"""Tables of characters as SentencePiece writes them, of any keys and of those that NFKC would replace."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from itertools import pairwise

import numpy as np


def table(replaced: Mapping[bytes, bytes]) -> bytes:
    """A double array: children are put at the first place where all are free, and that no others are from."""
    texts, begins = b"", {}
    for key, new in replaced.items():
        begins[key] = len(texts)
        texts += new + b"\0"
    units, free = np.zeros(1 << 17, np.uint32), np.ones(1 << 17, bool)
    free[0], first, end = False, 0, 0
    pending, bases = [(b"", 0)], set[int]()
    beginnings: dict[bytes, set[int]] = {b"": set()}
    for key in replaced:
        for cut in range(len(key)):
            beginnings.setdefault(key[:cut], set()).add(key[cut])
    while pending:
        key, place = pending.pop()
        labels = sorted(beginnings.get(key, set()))
        taken = np.array([*([0] if key in begins else []), *labels])
        while not free[first]:
            first += 1
        base = first ^ int(taken[0])
        while base in bases or not free[base ^ taken].all():
            base += 1
        free[base ^ taken] = False
        bases.add(base)
        end = max(end, int((base ^ taken).max()))
        units[place] |= (place ^ base) << 10 | (key in begins) << 8
        if key in begins:
            units[base] = begins[key] | 1 << 31
        for label in labels:
            units[base ^ label] = label
            pending.append((key + bytes((label,)), base ^ label))
    size = 4 * 256 * (end // 256 + 1)
    return size.to_bytes(4, "little") + units.tobytes()[:size] + texts


def compatible(texts: Iterable[str]) -> dict[bytes, bytes]:
    """Of all letters in these texts, and of two that follow each other, what NFKC makes something else of;
    and signs without a width, which become nothing.
    """
    found = dict.fromkeys((b"\x7f", "\u200b".encode()), b"")
    for text in texts:
        for parts in (*text, *map("".join, pairwise(text))):
            new = unicodedata.normalize("NFKC", parts)
            alone = "".join(unicodedata.normalize("NFKC", part) for part in parts)
            if new != parts and (len(parts) == 1 or new != alone) and "\0" not in parts:
                found[parts.encode()] = new.encode()
    return dict(sorted(found.items()))

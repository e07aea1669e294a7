"""What was computed already is found again: pages of the cache by the tokens that lie in them.

A page's key is SHA-256 over the keys before it and its tokens (numerics rule 15), so equal keys mean equal
bits: rows of the cache depend on nothing but the tokens up to them and what `Sequence.key` begins with.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from collections.abc import Sequence as Items
from dataclasses import dataclass
from hashlib import sha256

from assay.kernels.sizes import PAGE
from assay.llm.pages import Pages
from assay.llm.sequence import Sequence

Place = tuple[bytes, int]
"""The key of the pages before, and a page's first token."""


@dataclass(frozen=True)
class _Entry:
    """What lies in a page: `tokens`, behind those that `key` stands for."""

    key: bytes
    tokens: tuple[int, ...]

    @property
    def place(self) -> Place:
        return self.key, self.tokens[0]


class Prefixes:
    """Finds the pages that hold the beginning of a prompt. `copy` copies the first page to the second; None:
    nothing is to be found.

    Whole pages are shared; of one that is only partly of use, or still being filled, a copy is made.
    """

    def __init__(self, pages: int, copy: Callable[[int, int], None] | None) -> None:
        self.pages = Pages(pages, self._forget)
        self._copy = copy
        self._entries: dict[int, _Entry] = {}
        self._at: dict[Place, list[int]] = {}

    def cached(self, sequence: Sequence) -> int:
        """The number of the sequence's tokens, from the first on, that `attach` would find now."""
        return self.find(sequence.key, sequence.tokens, sequence.length - 1)[1]

    def attach(self, sequence: Sequence) -> None:
        """Let a sequence without pages hold those that have its beginning, all but its last token at most."""
        found, length = self.find(sequence.key, sequence.tokens, sequence.length - 1)
        whole = length // PAGE
        for page in found[:whole]:
            self.pages.share(page)
            sequence.take(page)
            self._advance(sequence)
        if length % PAGE:
            sequence.take(self._own(found[whole]))
        sequence.computed = length
        sequence.reused += length

    def publish(self, sequence: Sequence) -> None:
        """Let others find what is computed of a sequence."""
        if self._copy is None:
            return
        while (sequence.whole + 1) * PAGE <= sequence.computed:
            self._enter(sequence, PAGE)
            self._advance(sequence)
        if sequence.computed % PAGE:
            self._enter(sequence, sequence.computed % PAGE)

    def find(self, key: bytes, tokens: Items[int], most: int) -> tuple[list[int], int]:
        """Pages that hold the beginning of these tokens behind those that `key` stands for, and how many, at
        most `most`.
        """
        pages, length = list[int](), 0
        while length < most:
            best, common = -1, 0
            for page in self._at.get((key, tokens[length]), ()):
                shared = _common(self._entries[page].tokens, tokens, length, most)
                if shared > common:
                    best, common = page, shared
            if not common:
                break
            pages.append(best)
            length += common
            if common < PAGE:
                break
            key = page_key(key, tokens[length - PAGE : length])
        return pages, length

    def _own(self, source: int) -> int:
        """A page to write to, with what lies in `source`: a copy, or itself if there is no other one."""
        assert self._copy is not None
        if self.pages.free == 1 and self.pages.idle(source):
            return self.pages.allocate()
        self.pages.share(source)
        page = self.pages.allocate()
        self._copy(source, page)
        self.pages.release(source)
        return page

    def _enter(self, sequence: Sequence, count: int) -> None:
        """Enter the first `count` tokens of the sequence's next page, unless another page has them."""
        page, first = sequence.pages[sequence.whole], sequence.whole * PAGE
        entry = _Entry(sequence.key, tuple(sequence.tokens[first : first + count]))
        for other in self._at.get(entry.place, ()):
            if other != page and self._entries[other].tokens[:count] == entry.tokens:
                return
        if page in self._entries:
            self._forget(page)
        self._entries[page] = entry
        self._at.setdefault(entry.place, []).append(page)
        self.pages.keep(page)

    def _forget(self, page: int) -> None:
        place = self._entries.pop(page).place
        self._at[place].remove(page)
        if not self._at[place]:
            del self._at[place]

    @staticmethod
    def _advance(sequence: Sequence) -> None:
        """One more of the sequence's pages is whole."""
        first = sequence.whole * PAGE
        sequence.key = page_key(sequence.key, sequence.tokens[first : first + PAGE])
        sequence.whole += 1


def page_key(before: bytes, tokens: Items[int]) -> bytes:
    """The key of a page of these tokens, after those that `before` stands for."""
    return sha256(before + array("i", tokens).tobytes()).digest()


def _common(entered: Items[int], tokens: Items[int], first: int, most: int) -> int:
    """How many tokens from `first` on, and before `most`, are those entered."""
    count = min(len(entered), most - first)
    if tuple(tokens[first : first + count]) == entered[:count]:
        return count
    return next(at for at in range(count) if tokens[first + at] != entered[at])

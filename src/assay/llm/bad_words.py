"""What an answer may not contain: texts however they are spelled in tokens, and sequences of tokens."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence as Items

import numpy as np
from numpy.typing import NDArray


class Spellings:
    """The bytes of all tokens, to be searched by what is in them and by what they begin with."""

    def __init__(self, pieces: Items[bytes]) -> None:
        self.pieces = pieces
        self._sorted = np.array(sorted(range(len(pieces)), key=pieces.__getitem__), np.int32)
        self._beginnings = [pieces[token] for token in self._sorted]
        lengths = np.array([len(piece) for piece in pieces], np.int32)
        # All bytes in a row; of each the token that it is in, and how many there are to the piece's end.
        self._bytes = np.frombuffer(b"".join(pieces), np.uint8)
        self._owners = np.repeat(np.arange(len(pieces), dtype=np.int32), lengths)
        self._left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(self._bytes))
        self._places = np.argsort(self._bytes, kind="stable")
        self._firsts = np.searchsorted(self._bytes[self._places], np.arange(257))

    def containing(self, text: bytes) -> list[int]:
        """The tokens that have this text in them."""
        begin, end = self._firsts[text[0] : text[0] + 2]
        places = self._places[begin:end]
        places = places[self._left[places] >= len(text)]
        for at, byte in enumerate(text):
            if not len(places):
                break
            places = places[self._bytes[places + at] == byte]
        return [*map(int, np.unique(self._owners[places]))]

    def beginning(self, text: bytes) -> NDArray[np.int32]:
        """The tokens that begin with this text: a view, however many they are."""
        return self._sorted[_starting(self._beginnings, text)]


class BadWords:
    """The tokens that would complete a bad word: a text, or a sequence of tokens."""

    def __init__(self, words: Items[str | Items[int]], spellings: Spellings) -> None:
        """`spellings` are those of all tokens, where a word is a text."""
        texts = {word.encode("utf-8", "surrogatepass") for word in words if isinstance(word, str)}
        self._words: list[bytes] = []
        for text in sorted(texts, key=len):
            if not any(word in text for word in self._words):  # else it can't come: what is in it doesn't
                self._words.append(text)
        self._words.sort()
        self._sequences = [list(word) for word in words if not isinstance(word, str)]
        self._spellings = spellings
        self._longest = max(map(len, self._words), default=0)
        self._completions: dict[bytes, list[NDArray[np.int32]]] = {}
        self.always = [sequence[0] for sequence in self._sequences if len(sequence) == 1]
        self.always += [token for word in self._words for token in spellings.containing(word)]

    def after(self, output: Items[int]) -> list[int]:
        """The tokens that may not follow this output, beside those that never may."""
        found = []
        for *before, last in self._sequences:
            if before and [*output[-len(before) :]] == before:
                found.append(last)
        text = b""
        for token in reversed(output if self._words else ()):
            text = self._spellings.pieces[token] + text
            if len(text) >= self._longest:
                break
        for length in range(1, min(len(text), self._longest - 1) + 1):
            begun = text[-length:]
            if begun not in self._completions and (words := self._words[_starting(self._words, begun)]):
                rests = [word[length:] for word in words if word != begun]
                self._completions[begun] = [*filter(len, map(self._spellings.beginning, rests))]
            for tokens in self._completions.get(begun, ()):
                found += tokens.tolist()
        return found


def _starting(items: list[bytes], text: bytes) -> slice:
    """Where those that begin with this text are, in order."""
    begin = bisect_left(items, text)
    return slice(begin, bisect_right(items, text, begin, key=lambda item: item[: len(text)]))

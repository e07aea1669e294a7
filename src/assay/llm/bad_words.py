"""What an answer may not contain: texts however they are spelled in tokens, and sequences of tokens."""

from __future__ import annotations

from collections.abc import Sequence as Items


class BadWords:
    """The tokens that would complete a bad word: a text, or a sequence of tokens."""

    def __init__(self, words: Items[str | Items[int]], pieces: Items[bytes]) -> None:
        """`pieces` are the bytes of all tokens, where a word is a text."""
        self._words = [word.encode("utf-8", "surrogatepass") for word in words if isinstance(word, str)]
        self._sequences = [list(word) for word in words if not isinstance(word, str)]
        self._pieces = pieces
        self._longest = max(map(len, self._words), default=0)
        self._starting: dict[bytes, list[int]] = {}
        self.always = [sequence[0] for sequence in self._sequences if len(sequence) == 1]
        self.always += [n for n, piece in enumerate(pieces) if any(word in piece for word in self._words)]

    def after(self, output: Items[int]) -> list[int]:
        """The tokens that may not follow this output, beside those that never may."""
        found = []
        for *before, last in self._sequences:
            if before and [*output[-len(before) :]] == before:
                found.append(last)
        text = b""
        for token in reversed(output if self._words else ()):
            text = self._pieces[token] + text
            if len(text) >= self._longest:
                break
        for word in self._words:
            for cut in range(1, len(word)):
                if text.endswith(word[:cut]):
                    found += self._tokens(word[cut:])
        return found

    def _tokens(self, beginning: bytes) -> list[int]:
        """The tokens that begin with these bytes."""
        if beginning not in self._starting:
            found = [token for token, piece in enumerate(self._pieces) if piece.startswith(beginning)]
            self._starting[beginning] = found
        return self._starting[beginning]

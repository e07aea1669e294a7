"""Tokens to text, one token at a time."""

from __future__ import annotations

import codecs

from assay.llm.tokenizer import Tokenizer


class Detokenizer:
    """Holds back the bytes of a character until it is whole.

    All that `push` and `finish` return, joined, is `tokenizer.decode` of all tokens. Where the
    text `continues` another one, the space that begins it is kept.
    """

    def __init__(self, tokenizer: Tokenizer, *, skip_special: bool = True, continues: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._space = tokenizer.space_prefix and not continues
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that `token` completes; may be empty. Raises RequestError on a bad id."""
        piece = self._tokenizer.piece(token, skip_special=self._skip_special)
        if piece and self._space:
            piece, self._space = piece.removeprefix(b" "), False
        return self._decoder.decode(piece)

    def finish(self) -> str:
        """The text of bytes still held: they can't become a character any more."""
        return self._decoder.decode(b"", final=True)

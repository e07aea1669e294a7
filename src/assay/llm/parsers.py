"""Text to token ids, by whichever way a vocabulary was trained."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Protocol

import tokenizers


class Parser(Protocol):
    """Cuts a text into tokens. Threads may share it."""

    def parse(self, text: str, special: bool) -> list[int]:
        """The ids of `text`; a control token that it spells out is that token only if `special`."""


class LibraryParser:
    """The `tokenizers` library, once with all named tokens and once without the control ones."""

    def __init__(self, plain: tokenizers.Tokenizer, special: tokenizers.Tokenizer) -> None:
        self._plain, self._special = plain, special

    def parse(self, text: str, special: bool) -> list[int]:
        """See Parser."""
        chosen = self._special if special else self._plain
        ids: list[int] = chosen.encode(text, add_special_tokens=False).ids
        return ids


def unreachable(ids: Mapping[str, int], hidden: Iterable[str]) -> dict[str, int]:
    """The same vocabulary with the tokens `hidden` under names that no text can spell."""
    names = {name: secrets.token_hex(16) for name in hidden}
    return {names.get(token, token): number for token, number in ids.items()}


def finding(tokenizer: tokenizers.Tokenizer, named: Iterable[str]) -> tokenizers.Tokenizer:
    """The same tokenizer, which now takes the tokens `named` out of a text before it cuts the rest."""
    tokenizer.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in named])
    return tokenizer

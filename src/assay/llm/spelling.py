"""How a vocabulary spells bytes: the three alphabets of tokens, each back to the bytes of the text."""

from __future__ import annotations

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTES = dict(zip([*_PRINTABLE, *range(256, 324)], [*_PRINTABLE, *_OTHERS], strict=True))
"""GPT-2's alphabet, character to byte: printable Latin-1 stands for itself, the rest counts up from 256."""

_TO_BYTES = dict.fromkeys(range(0x100), 0xFFFF) | BYTES

SPACE = "\u2581"
"""SentencePiece's sign for a space."""


def byte_level(token: str) -> bytes:
    """Each character is a byte. A token with any other character is its own text, as added tokens are."""
    try:
        return token.translate(_TO_BYTES).encode("latin-1")
    except UnicodeEncodeError:
        return token.encode()


def sentence_piece(token: str) -> bytes:
    """Text, with a sign for spaces."""
    return token.replace(SPACE, " ").encode()


def word_piece(token: str) -> bytes:
    """What continues a word begins with ##; all else but a closing sign begins a word, after a space."""
    if token.startswith("##"):
        return token[2:].encode()
    return token.encode() if token in ".?!," else b" " + token.encode()


BYTE_TOKENS = {f"<0x{byte:02X}>": byte for byte in range(256)}
"""SentencePiece's tokens of the bytes that no piece spells."""

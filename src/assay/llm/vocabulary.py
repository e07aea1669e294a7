"""A vocabulary: what each token is and how it is spelled, and which tokens begin and end a text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# What a token is, by the numbers that GGUF gives it. NORMAL ones are spelled as the vocabulary does, BYTE
# ones are <0x00> to <0xFF>; the others are their own text.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True)
class Vocabulary:
    """`tokens[id]` and `kinds[id]`; `spelling` gives a normal token's bytes.

    `bos_id` begins a text and `eos_id` ends one, each None where the file names none; a model that draws any
    of `end_ids`, `eos_id` among them, has ended its answer. `closing_id` is what the model wants after a text
    if `adds_eos`: mostly, but not always, `eos_id`.
    `control` and `user_defined` are the tokens that may be found in a text before it is cut into words.
    `space_prefix` says that a text begins with a space that nobody wrote.
    """

    tokens: list[str]
    kinds: bytes
    ids: dict[str, int]
    control: list[str]
    user_defined: list[str]
    spelling: Callable[[str], bytes]
    space_prefix: bool
    bos_id: int | None
    eos_id: int | None
    closing_id: int | None
    end_ids: frozenset[int]
    adds_bos: bool
    adds_eos: bool

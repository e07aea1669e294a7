"""Text to token ids and back."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import tokenizers

from assay.errors import RequestError, shown
from assay.llm import fields
from assay.llm.bad_words import Spellings
from assay.llm.spelling import BYTE_TOKENS, BYTES, byte_level

if TYPE_CHECKING:
    from assay.llm.grammar import Grammars

# What a token is, by the numbers that GGUF gives it. NORMAL ones are spelled as the vocabulary does, BYTE
# ones are <0x00> to <0xFF>; the others are their own text.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6


@dataclass(frozen=True, kw_only=True, eq=False)
class Tokenizer:
    """Token ids run from 0 to `vocabulary_size` - 1. Nothing changes after construction: threads may share.

    `tokens[id]` and `kinds[id]`; `spelling` gives a normal token's bytes. `plain` and `special` are the
    library's readings of a text, without the control tokens' names and with them.

    `bos_id` begins a text and `closing_id` closes one (None: there is none); `adds_bos` and `adds_eos` say
    whether the model wants them there. `eos_id` is what chat templates write for the end of a text
    (None: nothing); any of `end_ids`, `eos_id` among them, ends an answer. `space_prefix` says that a text
    begins with a space that nobody wrote. `shrinks`: of a text, spaces aside, so many bytes at most become
    one of a token's name; 0 where there is no telling.
    """

    tokens: list[str]
    kinds: bytes
    ids: dict[str, int]
    spelling: Callable[[str], bytes]
    plain: tokenizers.Tokenizer
    special: tokenizers.Tokenizer
    bos_id: int | None
    eos_id: int | None
    closing_id: int | None
    end_ids: frozenset[int]
    adds_bos: bool
    adds_eos: bool
    space_prefix: bool
    shrinks: int

    @staticmethod
    def from_gguf(metadata: Mapping[str, object]) -> Tokenizer:
        """The tokenizer that a GGUF file's metadata describes. Raises FormatError, which names the key."""
        from assay.llm import gguf_tokenizer

        return gguf_tokenizer.read(metadata)

    @property
    def vocabulary_size(self) -> int:
        return len(self.tokens)

    @cached_property
    def control(self) -> tuple[str, ...]:
        """The names of the control tokens."""
        pairs = zip(self.tokens, self.kinds, strict=True)
        return tuple(token for token, kind in pairs if kind in (UNKNOWN, CONTROL))

    @cached_property
    def spellings(self) -> Spellings:
        """The bytes that each token adds to a text."""
        return Spellings([*map(self.piece, range(self.vocabulary_size))])

    @cached_property
    def grammars(self) -> Grammars:
        """What holds answers to a form."""
        from assay.llm.grammar import Grammars

        return Grammars(self)

    def encode(
        self,
        text: str,
        *,
        special: bool = False,
        bos: bool = False,
        eos: bool = False,
        most: int | None = None,
    ) -> list[int]:
        """The token ids of `text`, with `bos_id` before them if `bos` and `closing_id` after them if `eos`.

        A control token that is spelled out in the text (`<|im_end|>`) becomes that token only with `special`;
        else it is text like any other. Bytes that a byte-level vocabulary has no token for are left out, as
        they were when the model was trained; other vocabularies have an unknown token for them.
        Raises RequestError naming the argument; and, before any work is done, for a text so long that it has
        more than `most` tokens whatever they are.
        """
        fields.text("text", text)
        fields.flag("special", special)
        if most is not None and (least := self._least(text, most)) > most:
            want, got = f"at most {most} tokens in all", f"at least {least}"
            raise RequestError("the text is too long", place="text", want=want, got=got, hint="shorten it")
        around = list[list[int]]()
        for name, wanted, token in (("bos", bos, self.bos_id), ("eos", eos, self.closing_id)):
            fields.flag(name, wanted)
            if wanted and token is None:
                raise RequestError("this model has no such token", place=name, want="False", got="True")
            around.append([token] if wanted and token is not None else [])
        reading = self.special if special else self.plain
        return around[0] + reading.encode(text, add_special_tokens=False).ids + around[1]

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of `tokens`; bytes that aren't UTF-8 become U+FFFD. Raises RequestError on a bad id.

        The space that a vocabulary with `space_prefix` puts before every text is taken away.
        """
        fields.flag("skip_special", skip_special)
        if not isinstance(tokens, Iterable):
            raise fields.refused("tokens", "a list of token ids", tokens)
        pieces = [self.piece(token, skip_special=skip_special) for token in tokens]
        text = b"".join(pieces).decode("utf-8", "replace")
        return text.removeprefix(" ") if self.space_prefix else text

    def piece(self, token: int, *, skip_special: bool = True) -> bytes:
        """The bytes that `token` adds to decoded text: none for a special token when these are skipped."""
        try:
            number = operator.index(token)
        except TypeError:
            number = -1
        if not 0 <= number < self.vocabulary_size:
            want = f"0 to {self.vocabulary_size - 1}"
            raise RequestError("no such token", place="tokens", want=want, got=shown(token))
        text, kind = self.tokens[number], self.kinds[number]
        if kind == NORMAL:
            return self.spelling(text)
        if kind == BYTE:
            return bytes((BYTE_TOKENS[text],))
        return b"" if skip_special and kind != USER_DEFINED else text.encode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes that `token` stands for: a special token's are its name. Raises RequestError."""
        return self.piece(token, skip_special=False)

    def id_of(self, token: str) -> int | None:
        """The id of the token that the vocabulary spells so; None when there is none. Raises RequestError."""
        return self.ids.get(fields.text("token", token))

    @cached_property
    def _left_out(self) -> tuple[bytes, int]:
        """Bytes that may become nothing at all, and the length of the longest token's name in bytes."""
        missing = [byte for sign, byte in BYTES.items() if chr(sign) not in self.ids]
        return bytes(missing if self.spelling is byte_level else ()), max(
            len(token.encode()) for token in self.tokens
        )

    def _least(self, text: str, most: int) -> int:
        """A text has at least so many tokens. Spaces don't count, some tokens take any number of them."""
        if not self.shrinks or len(text) <= most:
            return 0
        left_out, longest = self._left_out
        return len("".join(text.split()).encode().translate(None, left_out)) // (self.shrinks * longest)

"""Text to token ids and back."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Self

import tokenizers

from assay.errors import RequestError
from assay.llm import gguf_tokenizer
from assay.llm.vocabulary import BYTE, NORMAL, USER_DEFINED, Vocabulary


class Tokenizer:
    """Token ids run from 0 to `vocabulary_size` - 1. Nothing changes after construction: threads may share.

    `bos_id` begins a text and `closing_id` closes one (None: there is none); `adds_bos` and `adds_eos` say
    whether the model wants them there. `eos_id` is what chat templates write for the end of a text
    (None: nothing); any of `end_ids` ends an answer. `control` has the names of the control tokens.
    """

    def __init__(
        self, vocabulary: Vocabulary, plain: tokenizers.Tokenizer, special: tokenizers.Tokenizer
    ) -> None:
        """`special` finds all named tokens in a text, `plain` only those that users define."""
        self._vocabulary, self._plain, self._special = vocabulary, plain, special
        self.control = tuple(vocabulary.control)
        self.vocabulary_size = len(vocabulary.tokens)
        self.bos_id = vocabulary.bos_id
        self.closing_id = vocabulary.closing_id
        self.adds_bos, self.adds_eos = vocabulary.adds_bos, vocabulary.adds_eos
        self.eos_id = vocabulary.eos_id
        self.end_ids = vocabulary.end_ids
        self.space_prefix = vocabulary.space_prefix

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Self:
        """The tokenizer that a GGUF file's metadata describes. Raises FormatError, which names the key."""
        return cls(*gguf_tokenizer.read(metadata))

    def encode(self, text: str, *, special: bool = False, bos: bool = False, eos: bool = False) -> list[int]:
        """The token ids of `text`, with `bos_id` before them if `bos` and `closing_id` after them if `eos`.

        A control token that is spelled out in the text (`<|im_end|>`) becomes that token only with `special`;
        else it is text like any other. Bytes that a byte-level vocabulary has no token for are left out, as
        they were when the model was trained; other vocabularies have an unknown token for them.
        Raises RequestError naming the argument.
        """
        if not isinstance(text, str):
            raise RequestError("not text", place="text", want="str", got=type(text).__name__)
        try:
            text.encode()
        except UnicodeEncodeError as error:
            at = error.start
            raise RequestError(
                "not Unicode text", place=f"text[{at}]", want="no surrogates", got=repr(text[at])
            ) from error
        before, after = _wanted("bos", bos, self.bos_id), _wanted("eos", eos, self.closing_id)
        parser = self._special if special else self._plain
        return before + parser.encode(text, add_special_tokens=False).ids + after

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of `tokens`; bytes that aren't UTF-8 become U+FFFD. Raises RequestError on a bad id.

        The space that a vocabulary with `space_prefix` puts before every text is taken away.
        """
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
            raise RequestError("no such token", place="tokens", want=want, got=repr(token))
        text, kind = self._vocabulary.tokens[number], self._vocabulary.kinds[number]
        if kind == NORMAL:
            return self._vocabulary.spelling(text)
        if kind == BYTE:
            return bytes.fromhex(text[3:5])  # <0x0A>
        return b"" if skip_special and kind != USER_DEFINED else text.encode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes that `token` stands for: a special token's are its name. Raises RequestError."""
        return self.piece(token, skip_special=False)

    def id_of(self, token: str) -> int | None:
        """The id of the token that the vocabulary spells `token`; None when there is none."""
        return self._vocabulary.ids.get(token)


def _wanted(argument: str, wanted: bool, token: int | None) -> list[int]:
    """The token as a list of one, or none where it isn't `wanted`."""
    if wanted and token is None:
        rule = f"this model has no token that {'begins' if argument == 'bos' else 'closes'} a text"
        raise RequestError(rule, place=argument, want="False")
    return [token] if wanted and token is not None else []

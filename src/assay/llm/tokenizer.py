"""Text to token ids and back: byte-level BPE on the `tokenizers` library."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Self

import tokenizers
from tokenizers import models

from assay.errors import FormatError, RequestError
from assay.llm.pretokenizers import PRE_TOKENIZERS
from assay.llm.vocabulary import BYTES, NORMAL, USER_DEFINED, Vocabulary


class Tokenizer:
    """Token ids run from 0 to `vocabulary_size` - 1. Nothing changes after construction: threads may share.

    `bos_id` begins a text (None: there is none), and `adds_bos` says whether the model wants it before a
    prompt. `eos_id` is what chat templates write for the end of a text (None: nothing); any of `end_ids` ends
    an answer. `control` has the names of the control tokens.
    """

    def __init__(
        self, vocabulary: Vocabulary, plain: tokenizers.Tokenizer, special: tokenizers.Tokenizer
    ) -> None:
        """`special` finds all named tokens in a text, `plain` only those that users define."""
        self._plain, self._special = plain, special
        self._tokens = vocabulary.tokens
        self._kinds = bytes(vocabulary.kinds)
        self.control = tuple(vocabulary.control)
        self.vocabulary_size = len(vocabulary.tokens)
        self.bos_id = vocabulary.bos_id
        self.adds_bos = vocabulary.adds_bos
        self.eos_id = vocabulary.eos_id
        self.end_ids = vocabulary.end_ids

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Self:
        """The tokenizer that a GGUF file's metadata describes. Raises FormatError, which names the key."""
        vocabulary = Vocabulary.from_gguf(metadata)
        try:
            bpe = models.BPE(vocabulary.ids, vocabulary.merges)
        except Exception as error:  # the library raises nothing narrower
            raise FormatError(
                "a tokenizer that can't be used",
                place="tokenizer.ggml.merges",
                want="pairs of tokens that are a token when joined",
                got=str(error),
            ) from error
        pre, named = vocabulary.pre, vocabulary.user_defined
        plain = _parsing(bpe, pre, named)
        return cls(vocabulary, plain, _parsing(bpe, pre, named + vocabulary.control))

    def encode(self, text: str, *, special: bool = False, bos: bool = False) -> list[int]:
        """The token ids of `text`, with `bos_id` before them if `bos`.

        A control token that is spelled out in the text (`<|im_end|>`) becomes that token only with `special`;
        else it is text like any other. Bytes that the vocabulary has no token for are left out, as they were
        when the model was trained. Raises RequestError naming the argument.
        """
        if not isinstance(text, str):
            raise RequestError("not text", place="text", want="str", got=type(text).__name__)
        if bos and self.bos_id is None:
            raise RequestError("this model has no token that begins a text", place="bos", want="False")
        try:
            encoding = (self._special if special else self._plain).encode(text, add_special_tokens=False)
        except TypeError as error:  # what the library says to text that UTF-8 can't carry
            at = next(n for n, character in enumerate(text) if "\ud800" <= character <= "\udfff")
            raise RequestError(
                "not Unicode text", place=f"text[{at}]", want="no surrogates", got=repr(text[at])
            ) from error
        ids: list[int] = encoding.ids
        return [self.bos_id, *ids] if bos and self.bos_id is not None else ids

    def decode(self, tokens: Iterable[int], *, skip_special: bool = True) -> str:
        """The text of `tokens`; bytes that aren't UTF-8 become U+FFFD. Raises RequestError on a bad id."""
        pieces = [self.piece(token, skip_special=skip_special) for token in tokens]
        return b"".join(pieces).decode("utf-8", "replace")

    def piece(self, token: int, *, skip_special: bool = True) -> bytes:
        """The bytes that `token` adds to decoded text: none for a special token when these are skipped."""
        try:
            number = operator.index(token)
        except TypeError:
            number = -1
        if not 0 <= number < self.vocabulary_size:
            want = f"0 to {self.vocabulary_size - 1}"
            raise RequestError("no such token", place="tokens", want=want, got=repr(token))
        text, kind = self._tokens[number], self._kinds[number]
        if kind == NORMAL:
            return text.translate(BYTES).encode("latin-1")
        return b"" if skip_special and kind != USER_DEFINED else text.encode()

    def token_bytes(self, token: int) -> bytes:
        """The bytes that `token` stands for: a special token's are its name. Raises RequestError."""
        return self.piece(token, skip_special=False)

    def id_of(self, token: str) -> int | None:
        """The id of the token that the vocabulary spells `token`; None when there is none."""
        found: int | None = self._special.token_to_id(token)
        return found


def _parsing(bpe: models.BPE, pre: str, named: list[str]) -> tokenizers.Tokenizer:
    """A tokenizer over the shared `bpe` that takes the tokens `named` out of the text, and cuts what is left
    into words.
    """
    tokenizer = tokenizers.Tokenizer(bpe)
    tokenizer.pre_tokenizer = PRE_TOKENIZERS[pre]()
    tokenizer.add_tokens([tokenizers.AddedToken(token, normalized=False) for token in named])
    return tokenizer

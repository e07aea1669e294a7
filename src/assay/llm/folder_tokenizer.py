"""The tokenizer of a Hugging Face folder: tokenizer.json, and what its neighbours say of special tokens."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import tokenizers

from assay.errors import FormatError
from assay.formats.fields import Config
from assay.formats.files import member, opened, read_at
from assay.formats.strict_json import read_json
from assay.formats.tensors import quoted
from assay.llm.spelling import BYTE_TOKENS, SPACE, byte_level, sentence_piece, word_piece
from assay.llm.template import LONGEST_SOURCE
from assay.llm.tokenizer import BYTE, CONTROL, NORMAL, UNUSED, USER_DEFINED, Tokenizer
from assay.llm.tokenizer_json import Fields, TokenizerJson

CONFIG_LIMIT = 1 << 20
"""Bytes of config.json and its like."""
TOKENIZER_LIMIT = 1 << 26
"""Bytes of tokenizer.json: Gemma 3's, of 262,144 tokens, has 33 million."""
TOKENIZER_MARKS = 3 << 20
"""Of tokenizer.json: Gemma 3's has 2.2 million, as each of half a million merges is an array."""


class FolderTokenizer:
    """Reads the folder's files. All methods raise FormatError, which names the file and the field."""

    def __init__(self, folder: Path, rows: int) -> None:
        """`rows` is what the model has of tokens; those beyond the tokenizer's own are unused."""
        self._folder, self._rows = folder, rows
        fields = read_json(member(folder, "tokenizer.json"), TOKENIZER_LIMIT, TOKENIZER_MARKS)
        self._json = TokenizerJson(fields, f"{folder} › tokenizer.json")
        self._config = _optional(folder, "tokenizer_config.json")

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once with all named tokens and once with those alone that users may write."""
        plain, special = self._json.readings()
        ids: dict[str, int] = special.get_vocab(with_added_tokens=True)
        count = max(ids.values(), default=-1) + 1
        if not 0 < count <= self._rows or len(set(ids.values())) < len(ids):
            want = f"1 to {self._rows:,} tokens, the model's rows, none with the id of another"
            raise self._json.error("model › vocab", want, f"{len(ids):,} tokens, ids to {count - 1:,}")
        tokens = [""] * self._rows
        kinds = [UNUSED] * self._rows
        in_bytes = BYTE_TOKENS if self._json.model.get("byte_fallback") else ()
        for text, number in ids.items():
            tokens[number] = text
            kinds[number] = BYTE if text in in_bytes else NORMAL
        for number, token in self._json.added:
            found = ids[token.content]
            if found != number:
                raise self._json.error("added_tokens", f"{found}, the id of {token.content!r}", number)
            kinds[found] = CONTROL if token.special else USER_DEFINED
        spelling, space_prefix = self._spelling()
        first, last = self._around(special, ids)
        bos, eos = self._named("bos_token", ids), self._named("eos_token", ids)
        return Tokenizer(
            tokens=tokens, kinds=bytes(kinds), ids=ids, spelling=spelling, plain=plain, special=special,
            bos_id=bos if first is None else first, eos_id=eos, closing_id=eos if last is None else last,
            end_ids=self._ends(eos), adds_bos=first is not None, adds_eos=last is not None,
            space_prefix=space_prefix, shrinks=self._json.shrinks(),
        )  # fmt: skip

    def _around(self, special: tokenizers.Tokenizer, ids: Mapping[str, int]) -> tuple[int | None, int | None]:
        """The tokens that the file puts before and after a text."""
        text = self._json.added[0][1].content if self._json.added else "a"
        whole = special.encode(text, add_special_tokens=True)
        before = [*whole.special_tokens_mask, 0].index(0)
        after = len(whole.ids) - before - len(special.encode(text, add_special_tokens=False).ids)
        if before > 1 or not 0 <= after <= 1:
            want = "at most one token before a text and one after"
            raise self._json.error("post_processor", want, whole.tokens)
        first, last = (whole.ids[0] if before else None), (whole.ids[-1] if after else None)
        for at, number in ((0, first), (-1, last)):
            if number is not None and ids.get(token := whole.tokens[at]) != number:
                want = f"{ids[token]}, the id of {token!r}" if token in ids else "a token of the vocabulary"
                raise self._json.error("post_processor", want, f"{token} with id {number}")
        return first, last

    def _spelling(self) -> tuple[Callable[[str], bytes], bool]:
        """How tokens are spelled, and whether decoding drops the space that begins a text."""
        joins = self._json.joins
        if "ByteLevel" in joins and "ByteLevel" in self._json.cuts:
            return byte_level, False
        if "WordPiece" in joins:
            return word_piece, True
        if "Metaspace" in joins:
            return sentence_piece, joins["Metaspace"].get("prepend_scheme") != "never"
        if joins.get("Replace", {}).get("pattern") == {"String": SPACE}:
            return sentence_piece, bool(joins.get("Strip", {}).get("start"))
        want = "ByteLevel (as pre_tokenizer, too) | WordPiece | Metaspace | Replace ▁"
        raise self._json.error("decoder", want, list(joins))

    def _named(self, field: str, ids: Mapping[str, int]) -> int | None:
        """The token that tokenizer_config.json names: a text, or an object with it."""
        value = self._config.get(field)
        text = value.get("content") if isinstance(value, dict) else value
        if text is None:
            return None
        if not isinstance(text, str) or text not in ids:
            place = f"{self._folder} › tokenizer_config.json › {field}"
            want = "a token of tokenizer.json"
            raise FormatError("no such token", place=place, want=want, got=str(text)[:80])
        return ids[text]

    def _ends(self, eos: int | None) -> frozenset[int]:
        """The tokens that end an answer: generation_config.json's, config.json's, and the one of texts."""
        ends = set() if eos is None else {eos}
        for name in ("generation_config.json", "config.json"):
            value = _optional(self._folder, name).get("eos_token_id", [])
            for token in value if isinstance(value, list) else [value]:
                field = Config({"eos_token_id": token}, f"{self._folder} › {name}")
                ends |= {field.integer("eos_token_id", 0, self._rows - 1)} if token is not None else set()
        return frozenset(ends)


def chat_template(folder: Path) -> str | None:
    """The folder's chat template: a file of its own, or a field of tokenizer_config.json; None for none."""
    if os.path.lexists(folder / "chat_template.jinja"):
        with opened(member(folder, "chat_template.jinja"), "a chat template") as (fd, size):
            raw = read_at(fd, 0, min(size, 4 * LONGEST_SOURCE + 1)).tobytes()
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            place = f"{folder} › chat_template.jinja"
            raise FormatError("not text", place=place, want="UTF-8", got=str(error)) from None
    place = f"{folder} › tokenizer_config.json › chat_template"
    value = _optional(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(value, list):
        named = {str(each.get("name")): each.get("template") for each in value if isinstance(each, dict)}
        if len(named) < len(value) or (len(named) != 1 and "default" not in named):
            want = "objects of different names: a single one, or one that is named default"
            got = quoted(", ".join(named))
            raise FormatError("no chat template to choose", place=place, want=want, got=got)
        value = named.get("default", next(iter(named.values()))) or {}
    if not isinstance(value, str | None):
        raise FormatError("bad chat template", place=place, want="a string", got=type(value).__name__)
    return value


def _optional(folder: Path, name: str) -> Fields:
    return read_json(member(folder, name), CONFIG_LIMIT) if os.path.lexists(folder / name) else {}

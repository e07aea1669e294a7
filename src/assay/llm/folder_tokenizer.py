"""The tokenizer of a Hugging Face folder: tokenizer.json, and what its neighbours say of special tokens."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import tokenizers

from assay.errors import FormatError
from assay.formats.files import member
from assay.formats.strict_json import JsonValue, read_json
from assay.formats.tensors import quoted
from assay.llm.template import LONGEST_SOURCE
from assay.llm.tokenizer import Tokenizer
from assay.llm.vocabulary import CONTROL, NORMAL, UNUSED, USER_DEFINED, Vocabulary

CONFIG_LIMIT = 1 << 20
"""Bytes of config.json and its like."""
TOKENIZER_LIMIT = 1 << 26
"""Bytes of tokenizer.json: large vocabularies take 20 million."""
TOKENIZER_MARKS = 1 << 21
"""Of tokenizer.json: 150,000 tokens and as many merges, each an array, have 900,000."""
Fields = dict[str, JsonValue]


class FolderTokenizer:
    """Reads the folder's files. All methods raise FormatError, which names the file and the field."""

    def __init__(self, folder: Path, rows: int) -> None:
        """`rows` is what the model has of tokens; those beyond the tokenizer's own are unused."""
        self._folder, self._rows = folder, rows
        self._place = f"{folder} › tokenizer.json"
        self._fields = read_json(member(folder, "tokenizer.json"), TOKENIZER_LIMIT, TOKENIZER_MARKS)
        self._config = _optional(folder, "tokenizer_config.json")

    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once with all named tokens and once with those alone that users may write."""
        model = self._fields.get("model")
        if not isinstance(model, dict) or model.get("type") != "BPE" or not self._bytes():
            got = model.get("type") if isinstance(model, dict) else None
            raise self._error("model", "a byte-level BPE", str(got))
        added = self._added()
        special = self._parsed(self._fields)
        written: list[JsonValue] = [token for token in added if not token["special"]]
        plain = self._parsed({**self._fields, "added_tokens": written})
        return Tokenizer(self._vocabulary(special, added), plain, special)

    def _vocabulary(self, special: tokenizers.Tokenizer, added: list[Fields]) -> Vocabulary:
        ids: dict[str, int] = special.get_vocab(with_added_tokens=True)
        count = max(ids.values(), default=-1) + 1
        if not 0 < count <= self._rows:
            raise self._error("model.vocab", f"1 to {self._rows:,} tokens, the model's rows", f"{count:,}")
        tokens = [""] * self._rows
        kinds = [UNUSED] * self._rows
        for text, number in ids.items():
            tokens[number], kinds[number] = text, NORMAL
        names: dict[bool, list[str]] = {True: [], False: []}
        for token in added:
            text = str(token["content"])
            kinds[ids[text]] = CONTROL if token["special"] else USER_DEFINED
            names[bool(token["special"])].append(text)
        bos, eos = self._named("bos_token", ids), self._named("eos_token", ids)
        first = special.encode("", add_special_tokens=True).ids[:1]
        return Vocabulary(
            tokens=tokens, kinds=kinds, ids=ids, control=names[True], user_defined=names[False], merges=[],
            pre="", bos_id=bos, eos_id=eos, end_ids=self._ends(eos),
            adds_bos=bos is not None and first == [bos],
        )  # fmt: skip

    def _parsed(self, fields: Fields) -> tokenizers.Tokenizer:
        try:
            return tokenizers.Tokenizer.from_str(json.dumps(fields))
        except Exception as error:  # the library raises nothing narrower
            rule = "a tokenizer that can't be used"
            raise FormatError(rule, place=self._place, got=str(error)[:500]) from error

    def _bytes(self) -> bool:
        """Whether words are spelled in bytes: some pre-tokenizer and the decoder are ByteLevel."""
        found = [self._fields.get(name) for name in ("pre_tokenizer", "decoder")]
        return all("ByteLevel" in json.dumps(each) for each in found)

    def _added(self) -> list[Fields]:
        added = self._fields.get("added_tokens", [])
        if not isinstance(added, list):
            raise self._error("added_tokens", "an array", type(added).__name__)
        found: list[Fields] = []
        for number, token in enumerate(added):
            if (
                isinstance(token, dict)
                and isinstance(token.get("content"), str)
                and isinstance(token.get("special"), bool)
            ):
                found.append(token)
            else:
                raise self._error(f"added_tokens[{number}]", "content and special", str(token)[:80])
        return found

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
            value = _optional(self._folder, name).get("eos_token_id")
            for token in value if isinstance(value, list) else [] if value is None else [value]:
                if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < self._rows:
                    place = f"{self._folder} › {name} › eos_token_id"
                    want, got = f"0 to {self._rows - 1}", str(token)[:80]
                    raise FormatError("no such token", place=place, want=want, got=got)
                ends.add(token)
        return frozenset(ends)

    def _error(self, field: str, want: str, got: str) -> FormatError:
        rule, place = "a tokenizer that can't be used", f"{self._place} › {field}"
        return FormatError(rule, place=place, want=want, got=quoted(got))


def chat_template(folder: Path) -> str | None:
    """The folder's chat template: a file of its own, or a field of tokenizer_config.json; None for none."""
    if os.path.lexists(folder / "chat_template.jinja"):
        with member(folder, "chat_template.jinja").open("rb") as file:
            raw = file.read(4 * LONGEST_SOURCE + 1)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            place = f"{folder} › chat_template.jinja"
            raise FormatError("not text", place=place, want="UTF-8", got=str(error)) from None
    value = _optional(folder, "tokenizer_config.json").get("chat_template")
    if isinstance(value, list):
        named = [each for each in value if isinstance(each, dict) and each.get("name") == "default"]
        value = named[0].get("template") if named else None
    if value is not None and not isinstance(value, str):
        place = f"{folder} › tokenizer_config.json › chat_template"
        raise FormatError("bad chat template", place=place, want="a string", got=type(value).__name__)
    return value


def _optional(folder: Path, name: str) -> Fields:
    return read_json(member(folder, name), CONFIG_LIMIT) if os.path.lexists(folder / name) else {}

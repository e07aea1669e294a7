"""tokenizer.json, held to what is known to be safe before the `tokenizers` library reads it.

The file says how a text is changed and cut. A hostile one could ask for a pattern that never ends, for steps
that double the text again and again, or for random merges.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator

import tokenizers

from assay.errors import FormatError
from assay.formats.strict_json import JsonValue
from assay.formats.tensors import quoted
from assay.llm.pretokenizers import KNOWN_PATTERNS
from assay.llm.spelling import SPACE

Fields = dict[str, JsonValue]

_LONGEST_WORD = 200
"""Characters of a word that WordPiece looks at: the time grows with their square."""


class TokenizerJson:
    """The file's fields, checked. All methods raise FormatError, which names the field."""

    def __init__(self, fields: Fields, place: str) -> None:
        # What cuts a text short or fills it up is for the caller to say, not for the file.
        self._fields = fields | {"truncation": None, "padding": None}
        self._place = place
        self.model = self._object("model")
        self.added = self._added()
        self.normal = self._steps("normalizer", _NORMALIZERS)
        self.cuts = self._steps("pre_tokenizer", _CUTS)
        self.joins = self._steps("decoder", _JOINS)
        self._check_model()

    def special(self) -> tokenizers.Tokenizer:
        """The library's reading of the whole file."""
        return self._read(self._fields)

    def plain(self) -> tokenizers.Tokenizer:
        """The same, with the special tokens under names that no text can spell."""
        hidden = {str(token["content"]): secrets.token_hex(16) for token in self.added if token["special"]}
        written: list[JsonValue] = [token for token in self.added if not token["special"]]
        model = {**self.model}
        if model.get("unk_token") in hidden:
            model["unk_token"] = hidden[str(model["unk_token"])]
        vocabulary, merges = model.get("vocab"), model.get("merges")
        if isinstance(vocabulary, dict):
            model["vocab"] = {hidden.get(token, token): number for token, number in vocabulary.items()}
        elif isinstance(vocabulary, list):
            pairs = [pair if isinstance(pair, list) else [pair] for pair in vocabulary]
            model["vocab"] = [[hidden.get(str(pair[0]), pair[0]), *pair[1:]] for pair in pairs]
        if isinstance(merges, list):
            model["merges"] = [pair for pair in merges if _merged(pair) not in hidden]
        return self._read(self._fields | {"model": model, "added_tokens": written, "post_processor": None})

    def error(self, field: str, want: str, got: object) -> FormatError:
        """What is wrong with a field."""
        rule, place = "a tokenizer that can't be used", f"{self._place} › {field}"
        return FormatError(rule, place=place, want=want, got=quoted(str(got)))

    def _read(self, fields: Fields) -> tokenizers.Tokenizer:
        try:
            return tokenizers.Tokenizer.from_str(json.dumps(fields))
        except Exception as error:  # the library raises nothing narrower
            rule = "a tokenizer that can't be used"
            raise FormatError(rule, place=self._place, got=str(error)[:500]) from error

    def _object(self, field: str) -> Fields:
        value = self._fields.get(field)
        if not isinstance(value, dict):
            raise self.error(field, "an object", type(value).__name__)
        return value

    def _added(self) -> list[Fields]:
        added = self._fields.get("added_tokens", [])
        if not isinstance(added, list):
            raise self.error("added_tokens", "an array", type(added).__name__)
        found: list[Fields] = []
        for number, token in enumerate(added):
            if not isinstance(token, dict) or not _is_added(token):
                raise self.error(f"added_tokens[{number}]", "id, content and special", token)
            found.append(token)
        return found

    def _steps(self, field: str, supported: dict[str, Callable[[Fields], bool]]) -> list[Fields]:
        steps = list(_flat(self._fields.get(field)))
        for step in steps:
            kind = step.get("type")
            if not isinstance(kind, str) or kind not in supported:
                raise self.error(field, " | ".join(supported), kind)
            if not supported[kind](step):
                raise self.error(f"{field} › {kind}", "what tokenizers in use say", step)
        kinds = Counter(str(step["type"]) for step in steps if step["type"] not in _REPEATED)
        if len(steps) > _MOST_STEPS or max(kinds.values(), default=0) > 1:
            raise self.error(
                field, f"at most {_MOST_STEPS} steps, none twice", f"{len(steps)}: {dict(kinds)}"
            )
        return steps

    def _check_model(self) -> None:
        model = self.model
        kind, vocabulary, unknown = model.get("type"), model.get("vocab"), model.get("unk_token")
        if kind not in ("BPE", "Unigram", "WordPiece"):
            raise self.error("model › type", "BPE | Unigram | WordPiece", kind)
        if not isinstance(vocabulary, list if kind == "Unigram" else dict):
            raise self.error("model › vocab", "the tokens", type(vocabulary).__name__)
        for field in ("dropout", "end_of_word_suffix"):
            if model.get(field):
                raise self.error(f"model › {field}", "nothing", model[field])
        if kind == "Unigram":
            if type(model.get("unk_id")) is not int:
                raise self.error("model › unk_id", "the token of what can't be spelled", model.get("unk_id"))
        elif (kind == "WordPiece" or unknown is not None) and unknown not in vocabulary:
            raise self.error("model › unk_token", "a token", unknown)
        prefix, longest = model.get("continuing_subword_prefix"), model.get("max_input_chars_per_word", 100)
        if (prefix or "") != ("##" if kind == "WordPiece" else ""):
            raise self.error("model › continuing_subword_prefix", "## for word pieces, else none", prefix)
        if type(longest) is not int or not 0 < longest <= _LONGEST_WORD:
            raise self.error("model › max_input_chars_per_word", f"1 to {_LONGEST_WORD}", longest)


def _is_added(token: Fields) -> bool:
    types = {"id": int, "content": str, "special": bool}
    return all(type(token.get(field)) is kind for field, kind in types.items()) and bool(token["content"])


def _merged(pair: JsonValue) -> str:
    """What a merge makes: two tokens in an array, or in a string with a space between."""
    return "".join(map(str, pair)) if isinstance(pair, list) else str(pair).replace(" ", "", 1)


def _flat(part: JsonValue) -> Iterator[Fields]:
    """The steps of a part of the file, sequences laid flat."""
    if isinstance(part, dict) and part.get("type") == "Sequence":
        for inner in part.values():
            for step in inner if isinstance(inner, list) else ():
                yield from _flat(step)
    elif part is not None:
        yield part if isinstance(part, dict) else {}


def _anything(step: Fields) -> bool:
    return True


def _known_pattern(step: Fields) -> bool:
    """A text, or a pattern of a tokenizer in use: there are others that take forever."""
    pattern = step.get("pattern")
    if not isinstance(pattern, dict) or len(pattern) != 1:
        return False
    return bool(pattern.get("String")) or pattern.get("Regex") in KNOWN_PATTERNS


def _replaces(step: Fields) -> bool:
    """By nothing longer, so that steps one after the other don't blow a text up."""
    content, pattern = step.get("content"), step.get("pattern")
    if not isinstance(content, str) or not isinstance(pattern, dict) or not _known_pattern(step):
        return False
    return len(content) <= len(str(pattern.get("String", " ")))


def _one_space(step: Fields) -> bool:
    return (step.get("content"), step.get("start"), step.get("stop")) in ((" ", 0, 0), (" ", 1, 0))


def _spaces(step: Fields) -> bool:
    return step.get("replacement") == SPACE


_MOST_STEPS = 16
_REPEATED = ("Split", "Replace")
_NORMALIZERS: dict[str, Callable[[Fields], bool]] = {
    **dict.fromkeys(("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Nmt"), _anything),
    "BertNormalizer": _anything,
    "Prepend": lambda step: step.get("prepend") == SPACE,
    "Replace": _replaces,
}
_CUTS: dict[str, Callable[[Fields], bool]] = {
    **dict.fromkeys(("ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"), _anything),
    "BertPreTokenizer": _anything,
    "Metaspace": _spaces,
    "Split": _known_pattern,
}
_JOINS: dict[str, Callable[[Fields], bool]] = {
    **dict.fromkeys(("ByteLevel", "ByteFallback", "Fuse"), _anything),
    "WordPiece": lambda step: step.get("prefix") == "##",
    "Metaspace": _spaces,
    "Replace": lambda step: step.get("pattern") == {"String": SPACE} and step.get("content") == " ",
    "Strip": _one_space,
}
"""The steps of each part that are supported, and what must hold of each."""

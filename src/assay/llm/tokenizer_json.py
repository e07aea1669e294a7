"""tokenizer.json, held to what is known to be safe before the `tokenizers` library reads it.

The file says how a text is changed and cut. A hostile one could ask for a pattern that never ends, for steps
that double the text again and again, or for random merges.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator

import tokenizers

from assay.errors import FormatError
from assay.formats.strict_json import JsonValue
from assay.formats.tensors import quoted
from assay.llm.pretokenizers import KNOWN_PATTERNS
from assay.llm.spelling import SPACE

Fields = dict[str, JsonValue]

_LONGEST_WORD = 200
"""Characters of a word that WordPiece looks at: the time grows with their square."""
_MOST_STEPS = 16


class TokenizerJson:
    """The file's fields, checked. All methods raise FormatError, which names the field."""

    def __init__(self, fields: Fields, place: str) -> None:
        # What cuts a text short or fills it up is for the caller to say, not for the file.
        self._fields = fields | {"truncation": None, "padding": None}
        self._place = place
        self.model, self.added = self._model(), self._added()
        self._steps("normalizer")
        self.cuts, self.joins = self._steps("pre_tokenizer"), self._steps("decoder")

    def special(self) -> tokenizers.Tokenizer:
        """The library's reading of the whole file."""
        return self._read(self._fields)

    def plain(self) -> tokenizers.Tokenizer:
        """The same, with the special tokens under names that no text can spell."""
        hidden = {str(token["content"]): secrets.token_hex(16) for token in self.added if token["special"]}
        written: list[JsonValue] = [token for token in self.added if not token["special"]]
        model = {**self.model}
        vocabulary, merges, unknown = model["vocab"], model.get("merges"), str(model.get("unk_token"))
        if unknown in hidden:
            model["unk_token"] = hidden[unknown]
        if isinstance(vocabulary, dict):
            model["vocab"] = {hidden.get(token, token): number for token, number in vocabulary.items()}
        elif isinstance(vocabulary, list):
            pairs = [pair for pair in vocabulary if isinstance(pair, list)]
            model["vocab"] = [[hidden.get(str(pair[0]), pair[0]), pair[1]] for pair in pairs]
        if isinstance(merges, list):
            model["merges"] = [pair for pair in merges if hidden.keys().isdisjoint(_named(pair))]
        return self._read(self._fields | {"model": model, "added_tokens": written, "post_processor": None})

    def error(self, field: str, want: str, got: object) -> FormatError:
        """What is wrong with a field."""
        rule, place = "a tokenizer that can't be used", f"{self._place} › {field}"
        return FormatError(rule, place=place, want=want, got=quoted(str(got)))

    def _read(self, fields: Fields) -> tokenizers.Tokenizer:
        try:
            return tokenizers.Tokenizer.from_str(json.dumps(fields))
        except Exception as error:  # the library raises nothing narrower
            raise self.error("model", "what the library reads", error) from error

    def _model(self) -> Fields:
        model = self._fields.get("model")
        if not isinstance(model, dict):
            raise self.error("model", "an object", model)
        kind, vocabulary, unknown = model.get("type"), model.get("vocab"), model.get("unk_token")
        words, listed = kind == "WordPiece", kind == "Unigram"
        longest = model.get("max_input_chars_per_word", 100)
        for field, sound in (
            ("type", kind in ("BPE", "Unigram", "WordPiece")),
            ("vocab", isinstance(vocabulary, list if listed else dict)),
            ("dropout", not model.get("dropout")),
            ("end_of_word_suffix", not model.get("end_of_word_suffix")),
            ("continuing_subword_prefix", (model.get("continuing_subword_prefix") or "") == "##" * words),
            ("max_input_chars_per_word", type(longest) is int and 0 < longest <= _LONGEST_WORD),
            ("unk_id", type(model.get("unk_id")) is int or not listed),
        ):
            if not sound:
                raise self.error(f"model › {field}", "BPE | Unigram | WordPiece as in use", model.get(field))
        spelled = isinstance(unknown, str) and isinstance(vocabulary, dict) and unknown in vocabulary
        if not spelled and (words or (unknown is not None and not listed)):
            raise self.error("model › unk_token", "a token", unknown)
        return model

    def _added(self) -> list[Fields]:
        added = self._fields.get("added_tokens", [])
        if not isinstance(added, list):
            raise self.error("added_tokens", "an array", added)
        found: list[Fields] = []
        types = {"id": int, "content": str, "special": bool}
        for number, token in enumerate(added):
            if (
                not isinstance(token, dict)
                or any(type(token.get(field)) is not kind for field, kind in types.items())
                or not token["content"]
            ):
                raise self.error(f"added_tokens[{number}]", "id, content and special", token)
            found.append(token)
        return found

    def _steps(self, field: str) -> dict[str, Fields]:
        """The steps of a part of the file by type: few, and none twice but what cuts or replaces."""
        steps = list(_flat(self._fields.get(field)))
        kinds = [str(step.get("type")) for step in steps]
        once = [kind for kind in kinds if kind not in ("Split", "Replace")]
        if len(steps) > _MOST_STEPS or len(set(once)) < len(once):
            raise self.error(field, f"at most {_MOST_STEPS} steps, none twice", kinds)
        for step in steps:
            if not _sound(step):
                raise self.error(f"{field} › {step.get('type')}", "what tokenizers in use say", step)
        return dict(zip(kinds, steps, strict=True))


def _named(pair: JsonValue) -> list[str]:
    """The tokens of a merge: two in an array, or in a string with a space between; and what they make."""
    halves = list(map(str, pair)) if isinstance(pair, list) else str(pair).split(" ", 1)
    return [*halves, "".join(halves)]


def _flat(part: JsonValue) -> Iterator[Fields]:
    """The steps of a part of the file, sequences laid flat."""
    if isinstance(part, dict) and part.get("type") == "Sequence":
        for inner in part.values():
            for step in inner if isinstance(inner, list) else ():
                yield from _flat(step)
    elif part is not None:
        yield part if isinstance(part, dict) else {}


def _sound(step: Fields) -> bool:
    """A step's pattern is a text or in use, others may take forever; and it puts nothing long into a text."""
    pattern, content = step.get("pattern", {"String": " "}), step.get("content", " ")
    if not isinstance(pattern, dict) or not isinstance(content, str) or "precompiled_charsmap" in step:
        return False
    text, regex = str(pattern.get("String", "")), str(pattern.get("Regex"))
    regex = regex.replace("\r", r"\r").replace("\n", r"\n")  # some files have the characters themselves
    known = bool(text) if "String" in pattern else regex in KNOWN_PATTERNS
    signs = (step.get("prepend", SPACE), step.get("replacement", SPACE), step.get("prefix", "##"))
    return known and len(content) <= len(text or " ") and signs == (SPACE, SPACE, "##")

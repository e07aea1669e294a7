"""tokenizer.json, held to what is known to be safe before the `tokenizers` library reads it.

The file says how a text is changed and cut. A hostile one could ask for a pattern that never ends, for steps
that double the text again and again, or for random merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer

from assay.errors import FormatError
from assay.formats.strict_json import JsonValue
from assay.formats.tensors import quoted
from assay.llm.pretokenizers import KNOWN_PATTERNS
from assay.llm.readings import readings
from assay.llm.spelling import BYTE_TOKENS, SPACE

Fields = dict[str, JsonValue]

_LONGEST_WORD = 200
"""Characters of a word that WordPiece looks at: the time grows with their square."""
_MOST_STEPS = 16
_NONE = type(None)
_MODELS: dict[str, dict[str, tuple[type, ...]]] = {
    "BPE": {"vocab": (dict,), "merges": (list,), "unk_token": (str, _NONE)}
    | dict.fromkeys(("fuse_unk", "byte_fallback", "ignore_merges"), (bool, _NONE)),
    "Unigram": {"vocab": (list,), "unk_id": (int,), "byte_fallback": (bool, _NONE)},
    "WordPiece": {"vocab": (dict,), "unk_token": (str,), "max_input_chars_per_word": (int, _NONE)},
}
"""The fields of each model, and the types that they may have."""
_FLAGS = ("special", "single_word", "lstrip", "rstrip", "normalized")
_COMPOSING = {"NFC", "NFD", "NFKC", "NFKD"}
"""At most 3 bytes are composed into one, and a few letters have a shorter name."""
_KEEPING = _COMPOSING | {"Prepend", "Metaspace", "ByteLevel", "Digits", "Split"}
_EMPTY: Fields = {"added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}}


class TokenizerJson:
    """The file's fields, checked. All methods raise FormatError, which names the field."""

    def __init__(self, fields: Fields, place: str) -> None:
        # What cuts a text short or fills it up is for the caller to say, not for the file.
        self._fields = fields | {"truncation": None, "padding": None}
        self._place = place
        self.model, self.added = self._model(), self._added()
        self._steps("normalizer")
        self.cuts, self.joins = self._steps("pre_tokenizer"), self._steps("decoder")

    def readings(self) -> tuple[Tokenizer, Tokenizer]:
        """Of plain text, and of text with special tokens, which also puts what it should around a text."""
        try:
            tokens = [
                AddedToken(str(token["content"]), **{flag: bool(token[flag]) for flag in _FLAGS})
                for token in self.added
            ]
            model = dict[str, object](self.model)
            for name in ("vocab", "merges"):  # the library's own classes take tuples alone
                if isinstance(pairs := model.get(name), list):
                    model[name] = [tuple(p.split(" ")) if isinstance(p, str) else tuple(p) for p in pairs]
            return readings(model, tokens, Tokenizer.from_str(json.dumps(self._fields | _EMPTY)))
        except Exception as error:  # the library raises nothing narrower
            raise self.error("model", "what the library reads", error) from error

    def shrinks(self) -> int:
        """See `Tokenizer`: of steps that leave out nothing but spaces, and may compose characters."""
        steps = [step for field in ("normalizer", "pre_tokenizer") for step in _flat(self._fields.get(field))]
        kinds = {str(step.get("type")) for step in steps if step.get("pattern") != {"String": " "}}
        removing = any(step.get("behavior") == "Removed" for step in steps)
        vocabulary = self.model["vocab"]
        if not isinstance(vocabulary, dict) or removing or not kinds <= _KEEPING:
            return 0
        in_bytes = self.model.get("byte_fallback") and BYTE_TOKENS.keys() <= vocabulary.keys()
        whole = self.model["type"] == "BPE" and ("ByteLevel" in self.cuts or in_bytes)
        return (8 if kinds & _COMPOSING else 1) * bool(whole)

    def error(self, field: str, want: str, got: object) -> FormatError:
        """What is wrong with a field."""
        rule, place = "a tokenizer that can't be used", f"{self._place} › {field}"
        return FormatError(rule, place=place, want=want, got=quoted(str(got)))

    def _model(self) -> Fields:
        model = self._fields.get("model")
        if not isinstance(model, dict):
            raise self.error("model", "an object", model)
        kind, vocabulary, unknown = str(model.get("type")), model.get("vocab"), model.get("unk_token")
        if kind not in _MODELS:
            raise self.error("model › type", " | ".join(_MODELS), kind)
        prefix, longest = model.get("continuing_subword_prefix"), model.get("max_input_chars_per_word")
        wrong = [name for name, types in _MODELS[kind].items() if type(model.get(name)) not in types]
        wrong += [name for name in ("dropout", "end_of_word_suffix") if model.get(name)]
        wrong += ["continuing_subword_prefix"] * ((prefix or "") != "##" * (kind == "WordPiece"))
        wrong += ["max_input_chars_per_word"] * (type(longest) is int and not 0 < longest <= _LONGEST_WORD)
        if isinstance(vocabulary, dict) and unknown is not None and str(unknown) not in vocabulary:
            wrong.append("unk_token")
        if wrong:
            raise self.error(f"model › {wrong[0]}", f"what {kind} has in use", model.get(wrong[0]))
        return {"type": kind} | {name: model.get(name) for name in _MODELS[kind]}

    def _added(self) -> list[Fields]:
        added = self._fields.get("added_tokens", [])
        if not isinstance(added, list):
            raise self.error("added_tokens", "an array", added)
        types = {"id": int, "content": str, **dict.fromkeys(_FLAGS, bool)}
        found = [token for token in added if isinstance(token, dict)]
        for number, token in enumerate(added):
            fields = token if isinstance(token, dict) else {}
            if not fields.get("content") or any(type(fields.get(name)) is not types[name] for name in types):
                raise self.error(f"added_tokens[{number}]", ", ".join(types), token)
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

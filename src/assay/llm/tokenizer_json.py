"""tokenizer.json, held to what is known to be safe before the `tokenizers` library reads it.

The file says how a text is changed and cut. A hostile one could ask for a pattern that never ends, for steps
that double the text again and again, or for random merges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer

from assay.formats.fields import Config
from assay.formats.strict_json import JsonValue
from assay.llm.pretokenizers import KNOWN_PATTERNS
from assay.llm.readings import readings
from assay.llm.spelling import BYTE_TOKENS, SPACE

Fields = dict[str, JsonValue]

_LONGEST_WORD = 200
"""Characters of a word that WordPiece looks at: the time grows with their square."""
_MOST, _MOST_STEPS = 1 << 32, 16
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


class TokenizerJson(Config):
    """The file's fields, checked: `model` is what the library's takes, `added` are named tokens by ids."""

    def __init__(self, fields: Fields, place: str) -> None:
        # What cuts a text short or fills it up is for the caller to say, not for the file.
        super().__init__(fields | {"truncation": None, "padding": None}, place)
        self.model, self.added = self._model(), self._added()
        self._steps("normalizer")
        self.cuts, self.joins = self._steps("pre_tokenizer"), self._steps("decoder")

    def readings(self) -> tuple[Tokenizer, Tokenizer]:
        """Of plain text, and of text with special tokens, which also puts what it should around a text."""
        model = dict(self.model)
        try:
            for name in ("vocab", "merges"):  # the library's own classes take tuples alone
                if isinstance(pairs := model.get(name), list):
                    model[name] = [tuple(p.split(" ")) if isinstance(p, str) else tuple(p) for p in pairs]
            frame = Tokenizer.from_str(json.dumps({**self.values, **_EMPTY}))
            return readings(model, [token for _, token in self.added], frame)
        except Exception as error:  # the library raises nothing narrower
            raise self.error("model", "what the library reads", str(error)) from error

    def shrinks(self) -> int:
        """See `Tokenizer`: of steps that leave out nothing but spaces, and may compose characters."""
        steps = [step for field in ("normalizer", "pre_tokenizer") for step in _flat(self.values.get(field))]
        kinds = {str(step.get("type")) for step in steps if step.get("pattern") != {"String": " "}}
        removing = any(step.get("behavior") == "Removed" for step in steps)
        vocabulary = self.model["vocab"]
        if not isinstance(vocabulary, dict) or removing or not kinds <= _KEEPING:
            return 0
        in_bytes = self.model.get("byte_fallback") and BYTE_TOKENS.keys() <= vocabulary.keys()
        whole = self.model["type"] == "BPE" and ("ByteLevel" in self.cuts or in_bytes)
        return (8 if kinds & _COMPOSING else 1) * bool(whole)

    def _model(self) -> dict[str, object]:
        model = self.require("model")
        kind = model.choice("type", _MODELS)
        found = {name: model.values.get(name) for name in _MODELS[kind]}
        for name, types in _MODELS[kind].items():
            if type(found[name]) not in types:
                raise model.error(name, f"what {kind} has in use", found[name])
        model.neutral("dropout", 0.0)
        model.neutral("end_of_word_suffix", "")
        model.neutral("continuing_subword_prefix", "##" if kind == "WordPiece" else "")
        model.integer("max_input_chars_per_word", 1, _LONGEST_WORD, 100)
        vocabulary, unknown = found["vocab"], found.get("unk_token")
        if isinstance(vocabulary, dict) and unknown is not None and unknown not in vocabulary:
            raise model.error("unk_token", "a token", unknown)
        return {"type": kind, **found}

    def _added(self) -> list[tuple[int, AddedToken]]:
        added, tokens = self.values.get("added_tokens", []), list[tuple[int, AddedToken]]()
        if not isinstance(added, list):
            raise self.error("added_tokens", "an array", added)
        for number, fields in enumerate(added):
            if not isinstance(fields, dict) or not fields.get("content") or not fields.keys() >= {*_FLAGS}:
                raise self.error(f"added_tokens[{number}]", f"content, {', '.join(_FLAGS)}", fields)
            token = Config(fields, f"{self.place} › added_tokens[{number}]")
            flags = {flag: token.flag(flag) for flag in _FLAGS}
            tokens.append((token.integer("id", 0, _MOST), AddedToken(token.text("content"), **flags)))
        return tokens

    def _steps(self, field: str) -> dict[str, Fields]:
        """The steps of a part of the file by type: few, and none twice but what cuts or replaces."""
        steps = list(_flat(self.values.get(field)))
        kinds = [str(step.get("type")) for step in steps]
        once = [kind for kind in kinds if kind not in ("Split", "Replace")]
        if len(steps) > _MOST_STEPS or len(set(once)) < len(once):
            raise self.error(field, f"at most {_MOST_STEPS} steps, none twice", kinds)
        for step in steps:
            if not _sound(step):
                raise self.error(f"{field} › {step.get('type')}", "what tokenizers in use say", step)
        return dict(zip(kinds, steps, strict=True))


def _flat(part: object) -> Iterator[Fields]:
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

"""A Hugging Face folder as what a GGUF file has in it. What our own reading of its tokenizer's keys makes of
texts must be the same as the folder's own: what no key can say is refused.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from assay.errors import FormatError, shown
from assay.formats.gguf_types import MetadataValue
from assay.llm.pretokenizers import PRE_TOKENIZERS
from assay.llm.source import open_source
from assay.llm.spelling import SPACE, byte_level, sentence_piece, word_piece
from assay.llm.tokenizer import NORMAL, UNUSED, Tokenizer
from assay.models.gguf_contents import Contents, contents

Fields = dict[str, Any]
"""What the library writes as JSON."""
SHARE = 1000
"""Tokens whose texts are one text, to be held against each other."""
PHI_3 = {"<unk>", "<s>", "</s>", "<|endoftext|>"}
"""Tokens that readers look for in what is called so."""
SPACES: tuple[Fields, ...] = (
    {"type": "Prepend", "prepend": SPACE},
    {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
)


@contextmanager
def open_as_gguf(path: Path) -> Iterator[Contents]:
    """The folder's weights as they are stored, under GGUF's names, and its keys, tokenizer and chat template
    with them. Raises FormatError for what such a file can't say.
    """
    with open_source(path) as source:
        made = contents(path, source.architecture, source.model, source.weights)
        tokenizer = source.tokenizer()
        keys = {**made.metadata, **tokenizer_keys(tokenizer, source.model.name)}
        if source.model.encoder:
            keys["tokenizer.ggml.token_type_count"] = source.model.token_types
        if source.template(tokenizer):
            keys["tokenizer.chat_template"] = source.chat_template() or ""
        yield replace(made, metadata=keys)


def tokenizer_keys(tokenizer: Tokenizer, name: str) -> dict[str, MetadataValue]:
    """The keys, and the name that a model of this name gets: readers go by it where named tokens take the
    spaces after them, as Phi-3's do. Raises FormatError for a tokenizer that they can't say.

    NFC, which some families' own files ask for, has no key: texts are taken to be in it.
    """
    fields = json.loads(tokenizer.special.to_str())
    ways: dict[object, Callable[[Fields, list[str]], Fields]]
    ways = {byte_level: _bytes, sentence_piece: _pieces, word_piece: _words}
    tokens = {n: text or f"[PAD{n}]" for n, text in enumerate(tokenizer.tokens)}
    said = ways[tokenizer.spelling](fields, [*tokens.values()])
    if tokenizer.spelling is word_piece:
        said |= {"cls_token_id": tokenizer.bos_id, "seperator_token_id": tokenizer.closing_id}
        said["add_sep_token"] = tokenizer.adds_eos
        tokens |= {n: _begun(tokens[n]) for n, kind in enumerate(tokenizer.kinds) if kind == NORMAL}
    more = sorted(tokenizer.end_ids - {tokenizer.eos_id})
    said |= {
        "tokens": tuple(tokens.values()),
        "token_type": np.frombuffer(tokenizer.kinds, np.uint8).astype(np.int32),
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "unknown_token_id": tokenizer.ids.get(fields["model"].get("unk_token") or ""),
        **dict(zip(("eot_token_id", "eom_token_id"), more, strict=False)),
        "add_bos_token": tokenizer.adds_bos,
        "add_eos_token": tokenizer.adds_eos,
        "add_space_prefix": tokenizer.space_prefix,
    }
    name = re.sub("phi-?3", "phi 3", name, flags=re.IGNORECASE)
    if any(token["rstrip"] for token in fields["added_tokens"]):
        if not tokenizer.ids.keys() >= PHI_3:
            raise _unsaid("added_tokens", "none with rstrip but in Phi-3's tokenizer", "some")
        name = f"phi-3 {name}"
    keys: dict[str, MetadataValue] = {
        f"tokenizer.ggml.{key}": value for key, value in said.items() if value is not None
    }
    keys["general.name"] = name
    _check(tokenizer, Tokenizer.from_gguf(keys))
    return keys


def _check(tokenizer: Tokenizer, found: Tokenizer) -> None:
    """Both make the same of texts, and of tokens."""
    for field in ("kinds", "bos_id", "eos_id", "closing_id", "adds_bos", "adds_eos", "space_prefix"):
        if getattr(tokenizer, field) != getattr(found, field):
            raise _unsaid(field, getattr(found, field), getattr(tokenizer, field))
    if not tokenizer.end_ids <= found.end_ids:
        raise _unsaid("eos_token_id", "at most three tokens that end an answer", sorted(tokenizer.end_ids))
    used = [n for n, kind in enumerate(tokenizer.kinds) if kind != UNUSED]
    for start in range(0, len(used), SHARE):
        share = used[start : start + SHARE]
        spelled, other_spelled = ([*map(each.token_bytes, share)] for each in (tokenizer, found))
        for joint, special in product((b"", b" "), (False, True)):
            text = unicodedata.normalize("NFC", joint.join(spelled).decode("utf-8", "ignore"))
            ids, others = (each.encode(text, special=special) for each in (tokenizer, found))
            if spelled != other_spelled or ids != others:
                raise _unsaid("model", "what GGUF's kinds of tokenizers make of texts", "another cut of them")
    for made, wanted in zip_longest(*map(_ranks, (tokenizer, found)), fillvalue=("nothing", set[str]())):
        if made != wanted:
            want = f"next {wanted[0]!r}, of all pairs that make it: {sorted(wanted[1])}"
            raise _unsaid("model › merges", want, f"{made[0]!r} of {sorted(made[1])}")


def _ranks(tokenizer: Tokenizer) -> list[tuple[str, set[str]]]:
    """The tokens that merges make, but for control ones, in order, and what the pairs begin with."""
    made: dict[str, set[str]] = {}
    for first, second in json.loads(tokenizer.special.to_str())["model"].get("merges", ()):
        made.setdefault(first + second, set()).add(first)
    return [(token, firsts) for token, firsts in made.items() if token not in tokenizer.control]


def _bytes(fields: Fields, tokens: list[str]) -> Fields:
    """Byte-level BPE: the way it cuts texts must have a name."""
    model, patterns = fields["model"], tuple(_patterns(fields["pre_tokenizer"]))
    wanted = patterns, model["ignore_merges"]
    names = [n for n, way in PRE_TOKENIZERS.items() if (way.patterns, way.ignore_merges) == wanted]
    if not names:
        raise _unsaid("pre_tokenizer", "a way to cut texts that has a name", patterns)
    if fields["normalizer"] not in (None, {"type": "NFC"}):
        raise _unsaid("normalizer", "none, or NFC", fields["normalizer"])
    return {"model": "gpt2", "pre": names[0], "merges": tuple(map(" ".join, model["merges"]))}


def _patterns(step: Fields) -> Iterator[str]:
    match step:
        case {"type": "Sequence", "pretokenizers": [*steps]}:
            for each in steps:
                yield from _patterns(each)
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": regex}:
            yield from PRE_TOKENIZERS["gpt-2"].patterns if regex else ()
        case {"type": "Digits", "individual_digits": True}:
            yield r"\p{N}"
        case {"type": "Split", "pattern": {"Regex": regex}, "behavior": kept, "invert": bool(other)} if (
            kept == ("Removed" if other else "Isolated")
        ):
            yield regex.replace("\r", r"\r").replace("\n", r"\n")
        case _:
            raise _unsaid("pre_tokenizer", "ByteLevel, Digits one by one, Split by Regex", step)


def _pieces(fields: Fields, tokens: list[str]) -> Fields:
    """SentencePiece's BPE: a token's score is the rank of the first merge that makes it."""
    model, normal = fields["model"], fields["normalizer"] or {"normalizers": []}
    if model["type"] != "BPE" or not model["byte_fallback"]:
        raise _unsaid("model", "BPE with a token for every byte", model["type"])
    for step in normal.get("normalizers", [normal]):
        if step not in SPACES:
            raise _unsaid("normalizer", "▁ for spaces, and before texts", step)
    ranks: dict[str, float] = {}
    for rank, (first, second) in enumerate(model["merges"]):
        ranks.setdefault(first + second, -float(rank))
    least = -float(len(model["merges"]))
    scores = np.array([ranks.get(token, least) for token in tokens], np.float32)
    return {"model": "llama", "pre": "default", "scores": scores}


def _words(fields: Fields, tokens: list[str]) -> Fields:
    """BERT's word pieces."""
    normal = fields["normalizer"] or {}
    lower, accents = normal.get("lowercase"), normal.get("strip_accents")
    plain = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True}
    if normal != {**plain, "lowercase": lower, "strip_accents": accents}:
        raise _unsaid("normalizer", "BertNormalizer with all but case and accents", normal)
    if fields["pre_tokenizer"] != {"type": "BertPreTokenizer"}:
        raise _unsaid("pre_tokenizer", "BertPreTokenizer", fields["pre_tokenizer"])
    accents = lower if accents is None else accents
    return {"model": "bert", "normalizer.lowercase": lower, "normalizer.strip_accents": accents}


def _begun(token: str) -> str:
    """A word piece as GGUF has it, where what begins a word is marked, and not what continues one."""
    if token.startswith("##"):
        return token[2:]
    return token if token.startswith("[") and token.endswith("]") else SPACE + token


def _unsaid(field: str, want: object, got: object) -> FormatError:
    rule, place = "a tokenizer that a GGUF file can't say", f"tokenizer.json › {field}"
    return FormatError(rule, place=place, want=str(want)[:80], got=shown(got))

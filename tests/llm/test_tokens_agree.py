"""Ids of 2,000 texts for every kind of GGUF tokenizer, held against those of llama.cpp (record_tokens.py)."""

from __future__ import annotations

import gzip
import json
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from assay.llm.detokenizer import Detokenizer
from assay.llm.tokenizer import Tokenizer
from llm.corpus import corpus
from llm.variants import digest, variants

GOLDEN = Path(__file__).parents[1] / "golden" / "tokens"
TEXTS = corpus()
VARIANTS = variants(json.loads(gzip.decompress((GOLDEN / "vocabularies.json.gz").read_bytes())))


def _marked(text: str) -> bool:
    return any(unicodedata.category(character)[0] == "M" for character in text)


def _wide_space(text: str) -> bool:
    return any(character.isspace() and not character.isascii() for character in text)


def _decomposed(text: str) -> bool:
    parts = unicodedata.normalize("NFD", text)
    return "▁" in text or any(unicodedata.category(p) == "Mc" or "\u1160" <= p <= "\u11ff" for p in parts)


# Where llama.cpp is known to leave what the model was trained with, which we keep to. Its patterns of tekken
# and gpt-4o take no combining marks for parts of words. DeepSeek's ranges hold wide spaces, but don't match
# them there. Its BERT drops spacing marks and all of a Hangul syllable but the first letter, and takes a ▁ of
# the text for the one that GGUF puts before words.
DEVIATES: dict[str, Callable[[str], bool]] = {
    "gpt2 tekken": _marked,
    "gpt2 gpt-4o": _marked,
    "gpt2 deepseek-coder": _wide_space,
    "gpt2 deepseek-llm": _wide_space,
    "bert": _decomposed,
    "bert cased": lambda text: "▁" in text,
}


def made(fields: Mapping[str, object]) -> Tokenizer:
    return Tokenizer.from_gguf({f"tokenizer.ggml.{key}": value for key, value in fields.items()})


@pytest.mark.parametrize("name", VARIANTS)
def test_ids_are_those_of_llama_cpp(name: str) -> None:
    tokenizer = made(VARIANTS[name])
    with np.load(GOLDEN / "llama_cpp.npz") as stored:
        expected = stored[name].tolist()
    wrong = []
    for text, want in zip(TEXTS, expected, strict=True):
        whole = tokenizer.encode(text, special=True, bos=tokenizer.adds_bos, eos=tokenizer.adds_eos)
        if digest(tokenizer.encode(text), whole) != want and not DEVIATES.get(name, _never)(text):
            wrong.append(text)
    assert wrong == []


def _never(text: str) -> bool:
    return False


@pytest.mark.parametrize("name", ["gpt2 gpt-2", "llama prefix True", "llama prefix False", "t5 prefix False"])
def test_text_survives(name: str) -> None:
    """Where every byte or character has a token, and no space is dropped, text comes back as it was."""
    tokenizer = made(VARIANTS[name])
    unknown = tokenizer.id_of("<unk>")
    for text in TEXTS:
        tokens = tokenizer.encode(text)
        detokenizer = Detokenizer(tokenizer)
        streamed = "".join(map(detokenizer.push, tokens)) + detokenizer.finish()
        assert streamed == tokenizer.decode(tokens)
        # What follows a named token begins with the prefix, too, which stays.
        if "▁" not in text and unknown not in tokens and not (tokenizer.space_prefix and "<tool>" in text):
            assert streamed == text


def test_a_text_that_continues_keeps_its_space() -> None:
    tokenizer = made(VARIANTS["llama prefix True"])
    tokens = tokenizer.encode("Once upon a time")
    assert tokenizer.decode(tokens) == "Once upon a time"
    detokenizer = Detokenizer(tokenizer, continues=True)
    assert "".join(map(detokenizer.push, tokens)) == " Once upon a time"


@pytest.mark.parametrize(
    "name", [name for name in VARIANTS if name.startswith(("gpt2", "llama", "t5", "bert"))]
)
def test_plain_text_makes_no_control_token(name: str) -> None:
    tokenizer = made(VARIANTS[name])
    control = {tokenizer.id_of(text) for text in tokenizer.control} - {
        tokenizer.id_of("<unk>"),
        tokenizer.id_of("[UNK]"),
    }
    for text in TEXTS[:400]:
        assert control.isdisjoint(tokenizer.encode(text)), text

"""Damaged keys of GGUF tokenizers, byte-level ones aside: refused by name and soon, or they work."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import FormatError
from assay.llm.tokenizer import Tokenizer

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = ["▁", "a", "b", "▁a", "ab", "▁ab", "<tool>"]
TOKENS = ["<unk>", "<s>", "</s>", *BYTES, *PIECES]
SCORES = [*[0.0] * 259, *[-float(n) for n in range(len(PIECES))]]
KINDS = [2, 3, 3, *[6] * 256, *[1] * 6, 4]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁a", "b", "▁ab", "▁!"]


def keys(model: str, **changes: object) -> dict[str, object]:
    fields: dict[str, object] = {"model": model, "tokens": TOKENS, "scores": SCORES, "token_type": KINDS}
    if model == "bert":
        fields |= {"tokens": WORDS, "token_type": [3, 3, 3, 3, 1, 1, 1, 1]}
        del fields["scores"]
    fields |= changes
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items() if value is not None}


@pytest.mark.parametrize("model", ["llama", "t5", "bert"])
def test_what_a_file_need_not_say(model: str) -> None:
    """Without keys for them, the tokens that begin, end and stand for the unknown go by their names."""
    tokenizer = Tokenizer.from_gguf(keys(model))
    expected = {"llama": (1, 2, True, False), "t5": (None, 2, False, True), "bert": (2, 3, True, True)}[model]
    assert (tokenizer.bos_id, tokenizer.closing_id, tokenizer.adds_bos, tokenizer.adds_eos) == expected


@pytest.mark.parametrize("model", ["llama", "t5"])
def test_bytes_and_spaces(model: str) -> None:
    tokenizer = Tokenizer.from_gguf(keys(model, add_space_prefix=True))
    assert tokenizer.decode(tokenizer.encode("ab a")) == "ab a"
    assert tokenizer.token_bytes(3 + 0xE2) == b"\xe2"
    if model == "llama":
        assert tokenizer.encode("é") == [TOKENS.index("▁"), 3 + 0xC3, 3 + 0xA9]
        assert tokenizer.decode([3 + 0xC3, 3 + 0xA9]) == "é"


@pytest.mark.parametrize("model", ["llama", "t5", "bert"])
def test_a_control_token_of_one_letter_is_never_made_of_text(model: str) -> None:
    tokens, kinds = [*TOKENS, "c"], [*KINDS, 3]
    changes = {"tokens": tokens, "token_type": kinds, "scores": [*SCORES, 0.0]}
    if model == "bert":
        changes = {"tokens": [*WORDS, "c"], "token_type": [3, 3, 3, 3, 1, 1, 1, 1, 3], "scores": None}
    tokenizer = Tokenizer.from_gguf(keys(model, **changes))
    last = tokenizer.vocabulary_size - 1
    assert last not in tokenizer.encode("ac c") and last in tokenizer.encode("ac c", special=True)


@pytest.mark.parametrize(
    ("model", "key", "value", "place"),
    [
        ("llama", "scores", None, "scores"),
        ("llama", "scores", SCORES[:-1], "scores"),
        ("llama", "scores", [*SCORES[:-1], math.nan], "scores[265]"),
        ("llama", "scores", [*SCORES[:-1], -math.inf], "scores[265]"),
        ("llama", "scores", [*SCORES[:-1], 1], "scores[265]"),
        ("llama", "scores", "high", "scores"),
        ("llama", "tokens", [*TOKENS[:3], "<0x0>", *TOKENS[4:]], "tokens[3]"),
        ("llama", "tokens", [*TOKENS[:3], "<0xfg>", *TOKENS[4:]], "tokens[3]"),
        ("llama", "tokens", [*TOKENS[:-1], "a" * 513], "tokens"),
        ("llama", "add_bos_token", 1, "add_bos_token"),
        ("llama", "add_space_prefix", "yes", "add_space_prefix"),
        ("llama", "bos_token_id", 266, "bos_token_id"),
        ("t5", "precompiled_charsmap", np.zeros(9, np.uint8), "precompiled_charsmap"),
        ("t5", "tokens", ["<u>", *TOKENS[1:]], "unknown_token_id"),
        ("t5", "remove_extra_whitespaces", 2, "remove_extra_whitespaces"),
        ("bert", "tokens", ["a", *WORDS[1:]], "tokens"),
        ("bert", "normalizer.lowercase", 1, "normalizer.lowercase"),
        ("bert", "seperator_token_id", 99, "seperator_token_id"),
        ("bert", "tokens", ["[P]", "[U]", "[C]", "[S]", *WORDS[4:]], "bos_token_id"),
    ],
)
def test_what_is_refused(model: str, key: str, value: object, place: str) -> None:
    with pytest.raises(FormatError) as caught:
        Tokenizer.from_gguf(keys(model, **{key: value}))
    assert caught.value.place == f"tokenizer.ggml.{place}"


def test_an_unknown_pre_tokenizer_is_told_its_neighbours() -> None:
    with pytest.raises(FormatError) as caught:
        Tokenizer.from_gguf(
            {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen22", "tokenizer.ggml.tokens": ["a"]}
        )
    assert caught.value.place == "tokenizer.ggml.pre" and "qwen2" in caught.value.hint


JUNK = st.none() | st.booleans() | st.integers(-1, 9) | st.floats() | st.text(max_size=3)


@settings(deadline=None)
@given(model=st.sampled_from(["llama", "t5", "bert"]), data=st.data())
def test_damaged_keys_are_refused_or_work(model: str, data: st.DataObject) -> None:
    fields = keys(model)
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(fields)))
        value = fields[key]
        if isinstance(value, list) and data.draw(st.booleans()):
            at = data.draw(st.integers(0, len(value) - 1)) if value else 0
            fields[key] = [*value[:at], *data.draw(st.lists(JUNK, max_size=2)), *value[at + 1 :]]
        else:
            fields[key] = data.draw(JUNK)
    began = time.process_time()
    try:
        tokenizer = Tokenizer.from_gguf(fields)
    except FormatError as error:
        assert error.place.startswith("tokenizer.ggml.") and error.want
        return
    tokenizer.decode(tokenizer.encode("ab é a<s>" + "ab" * 200, special=True))
    assert time.process_time() - began < 2

"""Against golden ids, which the model's own tokeniser made, and against the definition of byte-level BPE."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import FormatError, RequestError
from assay.llm.detokenizer import Detokenizer
from assay.llm.pretokenizers import PRE_TOKENIZERS
from assay.llm.tokenizer import Tokenizer

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/smollm2/tokens.json").read_text("utf-8"))

# Bytes of UTF-8 that this vocabulary has no token for: six control characters, the leads of empty planes.
MISSING = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}
TEXTS = st.text().filter(lambda text: MISSING.isdisjoint(text.encode()))


@pytest.fixture(scope="module")
def tokenizer(smollm2_tokenizer: Tokenizer) -> Tokenizer:
    return smollm2_tokenizer


def test_golden_ids(tokenizer: Tokenizer) -> None:
    assert len(GOLDEN) == 100
    for case in GOLDEN:
        assert tokenizer.encode(case["text"], special=True) == case["ids"], case["text"]


def test_golden_texts(tokenizer: Tokenizer) -> None:
    for case in GOLDEN:
        assert tokenizer.decode(case["ids"], skip_special=False) == case["text"]


@given(text=TEXTS)
def test_text_survives_encoding(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bytes_without_a_token_are_left_out(tokenizer: Tokenizer) -> None:
    known = {tokenizer.token_bytes(token)[0] for token in range(tokenizer.vocabulary_size)}
    utf8 = set(range(0xF5)) - {0xC0, 0xC1}
    assert utf8 - known <= MISSING
    assert tokenizer.decode(tokenizer.encode("a\x04b")) == "ab"


def test_special_tokens_are_parsed_only_when_asked(tokenizer: Tokenizer) -> None:
    text = "a<|im_end|>b"
    assert tokenizer.encode(text, special=True) == [*tokenizer.encode("a"), 2, *tokenizer.encode("b")]
    plain = tokenizer.encode(text)
    assert min(plain) > 16 and tokenizer.decode(plain) == text


@given(data=st.data())
def test_plain_text_never_makes_a_control_token(tokenizer: Tokenizer, data: st.DataObject) -> None:
    names = [tokenizer.token_bytes(token).decode() for token in range(17)]
    text = "".join(data.draw(st.lists(st.sampled_from(names) | st.text(max_size=5), max_size=8)))
    assert all(token > 16 for token in tokenizer.encode(text))


def test_special_tokens_are_skipped_in_text(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("<|im_start|>user\nHi<|im_end|>", special=True)
    assert tokenizer.decode(tokens) == "user\nHi"
    assert tokenizer.decode(tokens, skip_special=False) == "<|im_start|>user\nHi<|im_end|>"


def test_facts_of_smollm2(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocabulary_size == 49152
    assert tokenizer.bos_id == 1 and not tokenizer.adds_bos
    assert tokenizer.eos_id == 2  # <|im_end|>
    assert tokenizer.end_ids == {0, 2}  # <|endoftext|> by name
    assert tokenizer.id_of("<|im_end|>") == 2 and tokenizer.id_of("no such token") is None
    assert tokenizer.encode("", bos=True) == [1]
    assert tokenizer.token_bytes(2) == b"<|im_end|>"


def test_threads_get_the_same_ids(tokenizer: Tokenizer) -> None:
    text = " ".join(case["text"] for case in GOLDEN)
    want = {special: tokenizer.encode(text, special=special) for special in (False, True)}
    wrong: list[bool] = []

    def work(special: bool) -> None:
        wrong.extend(special for _ in range(20) if tokenizer.encode(text, special=special) != want[special])

    threads = [threading.Thread(target=work, args=(number % 2 == 0,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("token", [-1, 49152, 1.5, "a", None])
def test_decoding_refuses_what_is_no_token(tokenizer: Tokenizer, token: object) -> None:
    with pytest.raises(RequestError) as caught:
        tokenizer.decode([token])  # type: ignore[list-item]
    assert caught.value.want == "0 to 49151" and caught.value.got == repr(token)


class Unshowable:
    def __repr__(self) -> str:
        raise ValueError("not this one")


@pytest.mark.parametrize(
    "wrong", [None, 5, 1.5, object(), Unshowable(), pytest.param(10**5000, id="long"), [0] * 10**5]
)
def test_arguments_of_another_type_are_refused_by_name(tokenizer: Tokenizer, wrong: Any) -> None:
    calls = {
        "text": lambda: tokenizer.encode(wrong),
        "special": lambda: tokenizer.encode("a", special=wrong),
        "bos": lambda: tokenizer.encode("a", bos=wrong),
        "eos": lambda: tokenizer.encode("a", eos=wrong),
        "tokens": lambda: tokenizer.decode([wrong] if isinstance(wrong, list) else wrong),
        "skip_special": lambda: tokenizer.decode([], skip_special=wrong),
        "token": lambda: tokenizer.id_of(wrong),
    }
    for place, call in calls.items():
        with pytest.raises(RequestError) as caught:
            call()
        assert caught.value.place == place and caught.value.want and len(caught.value.got) <= 80
    if wrong != 5:
        with pytest.raises(RequestError) as caught:
            tokenizer.token_bytes(wrong)
        assert (caught.value.place, caught.value.want) == ("tokens", "0 to 49151")


def test_a_text_that_can_not_fit_is_refused_before_it_is_read(tokenizer: Tokenizer) -> None:
    began = time.process_time()
    with pytest.raises(RequestError) as caught:
        tokenizer.encode("ab" * 50_000_000, most=8192)
    assert caught.value.want == "at most 8192 tokens in all" and "at least" in caught.value.got
    assert time.process_time() - began < 5  # seconds; to encode it takes minutes


@given(text=st.text() | st.text(st.sampled_from("\x04\x06 \n\u3000 a<|im_end|>")), times=st.integers(1, 400))
def test_the_bound_is_sound(tokenizer: Tokenizer, text: str, times: int) -> None:
    """What is refused for its length has more tokens indeed, and else the ids are the same."""
    long = text * times
    tokens = tokenizer.encode(long)
    for most in {0, len(tokens) // 3, max(0, len(tokens) - 1), len(tokens)}:
        try:
            assert tokenizer.encode(long, most=most) == tokens
        except RequestError:
            assert len(tokens) > most


def test_decoding_takes_numpy_integers(tokenizer: Tokenizer) -> None:
    tokens = tokenizer.encode("Hello, world")
    assert tokenizer.decode(np.array(tokens, np.int32)) == "Hello, world"


def test_encoding_refuses_what_is_no_text(tokenizer: Tokenizer) -> None:
    with pytest.raises(RequestError) as caught:
        tokenizer.encode("ab\ud800")
    assert caught.value.place == "text[2]"
    with pytest.raises(RequestError) as caught:
        tokenizer.encode(b"ab")  # type: ignore[arg-type]
    assert (caught.value.place, caught.value.got) == ("text", "bytes")


@given(data=st.data(), skip=st.booleans())
def test_pieces_join_to_the_whole(tokenizer: Tokenizer, data: st.DataObject, skip: bool) -> None:
    # Ids under 300 are single bytes for the most part, so that sequences are often invalid UTF-8.
    tokens = data.draw(st.lists(st.integers(0, 300) | st.integers(0, 49151), max_size=40))
    detokenizer = Detokenizer(tokenizer, skip_special=skip)
    pieces = [detokenizer.push(token) for token in tokens]
    whole = b"".join(tokenizer.token_bytes(token) for token in tokens if token > 16 or not skip)
    assert "".join(pieces) + detokenizer.finish() == whole.decode("utf-8", "replace")
    assert tokenizer.decode(tokens, skip_special=skip) == whole.decode("utf-8", "replace")


@given(text=TEXTS)
def test_pieces_are_whole_characters(tokenizer: Tokenizer, text: str) -> None:
    detokenizer = Detokenizer(tokenizer)
    shown = ""
    for token in tokenizer.encode(text):
        shown += detokenizer.push(token)
        assert text.startswith(shown)
    assert detokenizer.finish() == "" and shown == text


# A vocabulary of our own: the oracle below merges by the textbook, lowest rank first, over the whole word.
LETTERS = ["a", "b", "c", "Ġ"]
PAIRS = ["a b", "ab c", "Ġ a", "b c", "c c", "ab ab", "Ġa b"]
SMALL: dict[str, object] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<s>", "<u>", *LETTERS, *(pair.replace(" ", "") for pair in PAIRS)],
    "tokenizer.ggml.token_type": [3, 4, *[1] * (len(LETTERS) + len(PAIRS))],
    "tokenizer.ggml.merges": PAIRS,
    "tokenizer.ggml.eos_token_id": 0,
}


def _by_the_textbook(word: str) -> list[str]:
    parts = list(word)
    while True:
        ranks = [PAIRS.index(pair) if (pair := " ".join(two)) in PAIRS else 99 for two in pairwise(parts)]
        if not ranks or min(ranks) == 99:
            return parts
        at = ranks.index(min(ranks))
        parts[at : at + 2] = [parts[at] + parts[at + 1]]


@given(word=st.text("abc", max_size=12))
def test_merges_by_the_textbook(word: str) -> None:
    tokenizer = Tokenizer.from_gguf(SMALL)
    parts = _by_the_textbook("Ġ" + word) if word else ["Ġ"]
    assert tokenizer.encode(" " + word) == [tokenizer.id_of(part) for part in parts]


def test_user_defined_tokens_are_always_parsed_and_shown() -> None:
    tokenizer = Tokenizer.from_gguf(SMALL)
    assert tokenizer.encode("a<u>b") == [tokenizer.id_of("a"), 1, tokenizer.id_of("b")]
    assert tokenizer.decode([0, 1]) == "<u>"


@given(text=st.text(st.sampled_from("<s>#ab"), max_size=12))
def test_control_tokens_that_merges_and_letters_make_stay_text(text: str) -> None:
    """Merges make <s>, and # is one letter: in plain text both are spelled as if they weren't there."""
    tokens = ["<s>", "#", *"<s>ab", "<s", "s>"]
    fields = {"tokens": tokens, "token_type": [3, 3, *[1] * 7], "merges": ["< s", "<s >", "s >"]}
    tokenizer = Tokenizer.from_gguf(SMALL | {f"tokenizer.ggml.{key}": value for key, value in fields.items()})
    plain = tokenizer.encode(text)
    assert {0, 1}.isdisjoint(plain)
    assert tokenizer.decode(plain) == text.replace("#", "")
    named = tokenizer.encode(text, special=True)
    assert tokenizer.decode(named, skip_special=False) == text
    assert (0 in named, 1 in named) == ("<s>" in text, "#" in text)


def _without(key: str) -> dict[str, object]:
    return {name: value for name, value in SMALL.items() if name != f"tokenizer.ggml.{key}"}


TOKENS = SMALL["tokenizer.ggml.tokens"]
assert isinstance(TOKENS, list)
HOSTILE: list[tuple[str, object, str, str]] = [
    ("model", "lama", "model", "gpt2 or llama or t5 or bert"),
    ("model", None, "model", "gpt2 or llama or t5 or bert"),
    ("model", 7, "model", "gpt2 or llama or t5 or bert"),
    ("pre", "qwen9", "pre", " or ".join(PRE_TOKENIZERS)),
    ("pre", ["smollm"], "pre", " or ".join(PRE_TOKENIZERS)),
    ("tokens", "abc", "tokens", "an array"),
    ("tokens", None, "tokens", "an array"),
    ("tokens", [*TOKENS[:-1], 7], "tokens[12]", "a string"),
    ("tokens", [*TOKENS[:-1], "a"], "tokens", "each token once"),
    ("tokens", [*TOKENS[:-1], ""], "tokens[12]", "a token that isn't empty"),
    ("tokens", [], "token_type", "0 numbers, one per token"),
    ("token_type", [1], "token_type", "13 numbers, one per token"),
    ("token_type", [*[1] * 12, 7], "token_type[12]", "1 to 6"),
    ("token_type", [*[1] * 12, True], "token_type[12]", "1 to 6"),
    ("token_type", [*[1] * 12, 2**80], "token_type[12]", "1 to 6"),
    ("token_type", [*[1] * 12, []], "token_type[12]", "1 to 6"),
    ("token_type", np.zeros((13, 1)), "token_type", "an array"),
    ("merges", {"a": "b"}, "merges", "an array"),
    ("merges", ["a b", b"a b"], "merges[1]", "a string"),
    ("merges", ["a b", "ab"], "merges[1]", "two tokens with a space between"),
    ("merges", ["a b", "a b c"], "merges[1]", "two tokens with a space between"),
    ("merges", ["a", "b c c"], "merges[0]", "two tokens with a space between"),
    ("merges", ["a b\na b"], "merges[0]", "two tokens with a space between"),
    ("merges", [""], "merges[0]", "two tokens with a space between"),
    ("merges", ["a b", "b c", "a b"], "merges", "each merge once"),
    ("merges", ["a x"], "merges", "tokens, and pairs of them that are a token when joined"),
    ("merges", ["c a"], "merges", "tokens, and pairs of them that are a token when joined"),
    ("merges", [" "], "merges", "tokens, and pairs of them that are a token when joined"),
    ("merges", ["\ud800 a"], "merges", "tokens, and pairs of them that are a token when joined"),
    ("merges", ["abcabc abcabc"], "merges", "tokens, and pairs of them that are a token when joined"),
    ("merges", ["a a"], "merges", "tokens, and pairs of them that are a token when joined"),
    ("eos_token_id", 13, "eos_token_id", "an integer from 0 to 12"),
    ("eos_token_id", -1, "eos_token_id", "an integer from 0 to 12"),
    ("eos_token_id", "0", "eos_token_id", "an integer from 0 to 12"),
    ("bos_token_id", True, "bos_token_id", "an integer from 0 to 12"),
    ("add_bos_token", 1, "add_bos_token", "true or false"),
    ("add_bos_token", True, "bos_token_id", "a token id, as add_bos_token is true"),
    ("add_eos_token", 1, "add_eos_token", "true or false"),
]


@pytest.mark.parametrize(("key", "value", "place", "want"), HOSTILE)
def test_hostile_metadata(key: str, value: object, place: str, want: str) -> None:
    metadata = _without(key) | ({} if value is None else {f"tokenizer.ggml.{key}": value})
    with pytest.raises(FormatError) as caught:
        Tokenizer.from_gguf(metadata)
    assert (caught.value.place, caught.value.want) == (f"tokenizer.ggml.{place}", want)


JUNK = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3)
WORDS = st.text(st.sampled_from("abc <s>Ġ\n\x00\ud800é"), max_size=4)
ARRAYS = st.lists(WORDS | JUNK, max_size=6) | st.lists(st.integers(-1, 8), max_size=6)


@given(
    changes=st.dictionaries(
        st.sampled_from([key.removeprefix("tokenizer.ggml.") for key in SMALL]), JUNK | ARRAYS
    )
)
def test_random_metadata_is_refused_or_works(changes: dict[str, object]) -> None:
    metadata = SMALL | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
    try:
        tokenizer = Tokenizer.from_gguf(metadata)
    except FormatError as error:
        assert error.place.startswith("tokenizer.ggml.") and error.want
        return
    tokenizer.decode(tokenizer.encode("a<s>bc d", special=True))


def test_types_may_be_absent_or_an_array() -> None:
    assert Tokenizer.from_gguf(_without("token_type")).encode("<s>", special=True) == []
    types = np.array(SMALL["tokenizer.ggml.token_type"], np.int32)
    assert Tokenizer.from_gguf(SMALL | {"tokenizer.ggml.token_type": types}).encode("<s>", special=True) == [
        0
    ]


def test_bytes_are_given_no_space() -> None:
    tokenizer = Tokenizer.from_gguf(SMALL | {"tokenizer.ggml.add_space_prefix": True})
    assert tokenizer.encode("a") == [tokenizer.id_of("a")]
    assert tokenizer.decode(tokenizer.encode(" a")) == " a"


def test_bos_without_one() -> None:
    with pytest.raises(RequestError) as caught:
        Tokenizer.from_gguf(SMALL).encode("a", bos=True)
    assert caught.value.place == "bos"

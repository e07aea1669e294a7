"""Answers that may not contain something, may not end yet, or must be of a form; several answers at once."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tokenizers.pre_tokenizers import ByteLevel

import assay
from assay.errors import RequestError
from assay.formats.gguf_types import MetadataValue
from assay.llm.bad_words import BadWords, Spellings
from assay.llm.engine import Engine
from assay.llm.language_model import LanguageModel
from assay.llm.request import Sampling
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import Q8_0
from llm import tiny
from llm.small import Small

Load = Callable[..., LanguageModel]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of all bytes and a few pairs with random weights: by itself what it says has no form at all."""
    tokens = ("<end>", "<begin>", "<more>", *sorted(ByteLevel.alphabet()), "ab", '":', '{"', "th")
    changes: dict[str, MetadataValue | np.generic | None] = {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([3, 3, 3, *[1] * (len(tokens) - 3)], np.int32),
        "tokenizer.ggml.merges": ("a b", '" :', '{ "', "t h"),
    }
    tensors = {**tiny.shapes(), "token_embd.weight": (Q8_0, (len(tokens), tiny.HIDDEN))}
    return tiny.write(tmp_path_factory.mktemp("tiny") / "tiny.gguf", changes, tensors)


@pytest.fixture(scope="module")
def random(tiny_path: Path) -> Iterator[LanguageModel]:
    with assay.load(tiny_path, threads=1) as lm:
        yield lm


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    device = Cpu(1, capacity=1 << 30)
    yield Small(device)
    device.close()


def tokens_of(engine: Engine, sampling: Sampling) -> list[int]:
    sequence = engine.add([1, 2, 3], sampling)
    while engine.busy:
        engine.step()
    return sequence.tokens[3:]


def check_person(text: str) -> None:
    person = json.loads(text)
    assert list(person) == ["name", "age", "tags"] and len(person["name"]) <= 8
    assert type(person["age"]) is int and 0 <= person["age"] <= 120
    assert 1 <= len(person["tags"]) <= 2 and {"a", "b"}.issuperset(person["tags"])


def test_a_schema_holds_whatever_the_model_would_say(random: LanguageModel) -> None:
    ended = 0
    for seed in range(40):
        answer = random.generate("x", temperature=1.5, seed=seed, max_tokens=110, json_schema=PERSON)
        if answer.finish_reason == "stop":
            check_person(answer.text)
            ended += 1
    assert ended >= 20


def test_a_schema_holds_for_a_real_model(load: Load) -> None:
    lm = load()
    messages = [{"role": "user", "content": "Describe a person in JSON with name, age and tags."}]
    for answer in lm.chat(messages, temperature=1.0, seed=1, max_tokens=60, json_schema=PERSON, n=4).choices:
        if answer.finish_reason == "stop":
            check_person(answer.text)
        else:
            assert answer.finish_reason == "length"


@pytest.mark.parametrize("pattern", ["[a-c]{2,4}x", "(yes|no)!", "[0-9]{1,3}(\\.[0-9]{2})?", "ä+ß"])
def test_an_expression_holds(random: LanguageModel, pattern: str) -> None:
    prompts = [str(number) for number in range(8)]
    for answer in random.generate_batch(prompts, temperature=2.0, seed=3, max_tokens=60, regex=pattern):
        whole = answer.finish_reason == "stop"
        assert re.fullmatch(pattern, answer.text) if whole else answer.finish_reason == "length"


def test_a_grammar_holds_and_greedily_too(random: LanguageModel) -> None:
    answer = random.generate("x", max_tokens=20, grammar='start: "b" ("an" | "as") "a"')
    assert answer.text in ("bana", "basa") and answer.finish_reason == "stop"


def test_constrained_answers_are_the_same_in_company(random: LanguageModel) -> None:
    kinds: list[dict[str, object]] = [
        {"json_schema": PERSON}, {"regex": "[a-z ]{5,30}"}, {}, {"bad_words": ["a", "e"]}, {"min_tokens": 9},
    ]  # fmt: skip
    plain = {"temperature": 1.0, "seed": 4, "max_tokens": 30}
    samplings = [Sampling(**plain, **kind) for kind in kinds]  # type: ignore[arg-type]
    engine = random.engine
    together = [engine.add([5, 6, 7], sampling) for sampling in samplings]
    while engine.busy:
        engine.step()
    for sampling, sequence in zip(samplings, together, strict=True):
        alone = engine.add([5, 6, 7], sampling)
        while engine.busy:
            engine.step()
        assert (alone.tokens, alone.logprobs) == (sequence.tokens, sequence.logprobs)


@pytest.mark.parametrize(
    ("fields", "place", "got"),
    [
        ({"json_schema": {"type": "array", "uniqueItems": True}}, "json_schema.uniqueItems", "uniqueItems"),
        ({"json_schema": {"requred": ["a"]}}, "json_schema.requred", "requred"),
        ({"json_schema": {"properties": {"a": {"not": {}}}}}, "json_schema.properties.a.not", "not"),
        ({"json_schema": {"x-guidance": {"lenient": True}}}, "json_schema.x-guidance", "x-guidance"),
        ({"json_schema": {"type": "string", "format": "nonsense"}}, "json_schema", "nonsense"),
        ({"json_schema": "{"}, "json_schema", "property name"),
        ({"json_schema": "[" * 100_000}, "json_schema", "recursion"),
        ({"json_schema": 3}, "json_schema", "3"),
        ({"json_schema": {"const": {1, 2}}}, "json_schema", "not JSON serializable"),
        ({"regex": "\ud800"}, "regex", "surrogates"),
        ({"regex": "(a"}, "regex", "unclosed group"),
        ({"regex": "(?=a)b"}, "regex", "look-around"),
        ({"regex": ""}, "regex", "''"),
        ({"grammar": "start: missing"}, "grammar", "missing"),
        ({"regex": "a", "grammar": "b"}, "grammar", "both"),
        ({"regex": "a", "bad_words": ["a"]}, "bad_words", "both"),
        ({"regex": "a", "min_tokens": 2}, "min_tokens", "both"),
        ({"regex": "a", "ignore_eos": True}, "ignore_eos", "both"),
        ({"bad_words": "abc"}, "bad_words", "abc"),
        ({"bad_words": ["a", ""]}, "bad_words", "''"),
        ({"bad_words": [[]]}, "bad_words", "[]"),
        ({"bad_words": ["a", "\udcff"]}, "bad_words[1][0]", "udcff"),
        ({"bad_words": [[10**6]]}, "bad_words", "1000000"),
        ({"min_tokens": 4}, "min_tokens", "4"),
        ({"ignore_eos": 1}, "ignore_eos", "1"),
        ({"top_logprobs": 21}, "top_logprobs", "21"),
        ({"n": 65}, "n", "65"),
    ],
)
def test_what_cannot_be_kept_is_refused_at_once(
    random: LanguageModel, fields: dict[str, object], place: str, got: str
) -> None:
    with pytest.raises(RequestError) as refused:
        random.generate("x", max_tokens=3, **fields)  # type: ignore[arg-type]
    assert refused.value.place == place and got in refused.value.got
    assert not random.engine.busy


def test_bad_words_never_come_however_they_are_spelled(load: Load) -> None:
    """Without the ban each of them comes; with it none does, across tokens' borders neither."""
    lm = load()
    prompt, sampling = "Once upon a time there was", {"max_tokens": 24, "seed": 2}
    free = lm.generate(prompt, **sampling).text
    words = [free[6:11], free[20:31], free[-9:-4]]
    held = lm.generate(prompt, bad_words=words, **sampling).text
    assert all(word in free and word not in held for word in words)


def test_bad_words_of_a_random_model(random: LanguageModel) -> None:
    """Answers of two letters alone, where each pair and each triple comes soon."""
    bias = {random.tokenizer.encode(letter)[0]: 50.0 for letter in "th"}
    sampling = {"temperature": 3.0, "max_tokens": 60, "logit_bias": bias}
    for seed, words in enumerate((["th"], ["hht", "tt"], ["ht", "ttt"], ["x", "hhh"])):
        assert all(word in random.generate("x", seed=seed, **sampling).text for word in words if word != "x")
        answer = random.generate("x", seed=seed, bad_words=words, **sampling)
        assert not any(word in answer.text for word in words) and len(answer.text) > 10


def naive(words: list[bytes], pieces: list[bytes], text: bytes) -> set[int]:
    """The tokens after which a word that isn't in the text is there."""
    return {token for token, piece in enumerate(pieces) if any(word in text + piece for word in words)}


def test_what_would_complete_a_bad_word_is_what_trying_every_token_finds() -> None:
    """Pieces and words of two letters, where all are in each other, and pieces of every byte and none."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        pieces = [bytes(rng.choice([97, 98], rng.integers(5)).tolist()) for _ in range(20)]
        pieces += [bytes([byte]) for byte in range(256)]
        words = ["".join(rng.choice(["a", "b"], rng.integers(1, 7))) for _ in range(rng.integers(1, 5))]
        bad, raw = BadWords(words, Spellings(pieces)), [word.encode() for word in words]
        output: list[int] = []
        for _ in range(12):
            wanted = naive(raw, pieces, b"".join(pieces[token] for token in output))
            assert {*bad.always, *bad.after(output)} == wanted
            free = [token for token in (*range(20), 97 + 20, 98 + 20) if token not in wanted]
            if not free:
                break
            output.append(int(rng.choice(free)))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a" * (256 - n) for n in range(200)], "a" * 50),
        (["a" * 200 + chr(300 + n) for n in range(256)], "a" * 250),
        ([chr(300 + n) + " " * 200 for n in range(256)], chr(310) + " " * 190),
        ([" " * 100 + chr(300 + n) for n in range(256)], " " * 150),
        ([f"{' jumps over the lazy dog' * 10}{n}" for n in range(256)], " jumps over the lazy dog" * 10),
        ([chr(n) for n in range(256, 512)], "word"),
        ([chr(n) for n in range(32, 127) if chr(n) != "w"], "w" * 100),
    ],
)
def test_the_most_bad_words_hold_nobody_up(words: list[str], said: str) -> None:
    """All requests wait for one: 50,000 pieces of up to 100 bytes, in a second where a scan for each word
    and each of its ends would take ten and more.
    """
    rng = np.random.default_rng(0)
    pieces = [bytes([byte]) for byte in range(256)] + [b" " * n for n in range(2, 100)]
    pieces += [bytes(rng.integers(97, 123, rng.integers(1, 12)).tolist()) for _ in range(50_000)]
    spellings = Spellings(pieces)
    begin = time.process_time()
    bad, output = BadWords(words, spellings), list(said.encode())
    for length in range(len(output)):
        bad.after(output[: length + 1])
    assert time.process_time() - begin < 1


def test_bad_sequences_of_tokens_never_come(small: Small) -> None:
    free = tokens_of(small.engine(), Sampling(max_tokens=20))
    bad = [free[3:4], free[6:9], [*free[10:12], free[12]]]
    held = tokens_of(small.engine(), Sampling(max_tokens=60, bad_words=bad))
    for word in bad:
        assert word not in [held[at : at + len(word)] for at in range(len(held))]
    # The prompt is no part of the answer: what it begins may be completed.
    crossing = tokens_of(small.engine(), Sampling(max_tokens=20, bad_words=[[3, free[0]]]))
    assert crossing[0] == free[0]


def test_a_request_that_leaves_no_token_ends_with_an_error(small: Small) -> None:
    engine = small.engine()
    other = engine.add([1, 2], Sampling(max_tokens=4))
    bias = dict.fromkeys(range(small.vocabulary), -100.0)
    assert len(tokens_of(engine, Sampling(max_tokens=3, logit_bias=bias))) == 3
    engine.ends = frozenset(range(small.vocabulary))
    none = engine.add([1, 2], Sampling(min_tokens=2))
    while engine.busy:
        engine.step()
    assert none.reason == "error" and isinstance(none.error, RequestError)
    assert none.error.rule == "no token is left"
    assert other.reason == "length" and engine.pages.free == engine.pages.count


def test_ends_are_put_off_or_ignored(small: Small) -> None:
    drawn = {"max_tokens": 12, "temperature": 3.0, "seed": 1}
    free = tokens_of(small.engine(), Sampling(**drawn))  # type: ignore[arg-type]
    engine = small.engine()
    engine.ends = frozenset(free[2:4])
    assert len(set(free)) == 12 and tokens_of(engine, Sampling(**drawn)) == free[:3]  # type: ignore[arg-type]
    assert tokens_of(engine, Sampling(ignore_eos=True, **drawn)) == free  # type: ignore[arg-type]
    later = tokens_of(engine, Sampling(min_tokens=6, **drawn))  # type: ignore[arg-type]
    assert len(later) > 6 and not engine.ends.intersection(later[:6])
    soon = Sampling(min_tokens=6, logit_bias={free[2]: 100.0}, **drawn)  # type: ignore[arg-type]
    assert len(tokens_of(engine, soon)) == 7


def test_alternatives_are_the_greatest_of_float64(small: Small) -> None:
    engine = small.engine()
    sequence = engine.add([1, 2, 3], Sampling(max_tokens=8, temperature=1.0, seed=1, top_logprobs=7))
    plain = engine.add([1, 2, 3], Sampling(max_tokens=8))
    while engine.busy:
        engine.step()
    rows = small.engine().output("logits", sequence.tokens[:-1])[2:].astype(np.float64)
    for row, alternatives in zip(rows, sequence.top_logprobs, strict=True):
        expected = row - np.log(np.exp(row).sum())
        assert [token for token, _ in alternatives] == np.argsort(-row, kind="stable")[:7].tolist()
        for token, logprob in alternatives:
            # Below 32 in size: rounding is 2^-20 at most, the error of the sum is below 2^-20 too.
            assert abs(logprob - expected[token]) < 2.0**-19
    assert plain.top_logprobs == [()] * 8


def test_choices_share_the_prompt_and_differ(load: Load) -> None:
    lm = load(prefix_cache=True)
    prompt = "The three most beautiful cities of the world are, in the order of their age, " * 12
    tokens = len(lm.tokenizer.encode(prompt, bos=lm.tokenizer.adds_bos))
    first, *others = lm.generate(prompt, temperature=1.0, seed=7, max_tokens=8, n=4).choices
    assert len({answer.text for answer in (first, *others)}) == 4 and tokens > 150
    assert {answer.seed for answer in (first, *others)} == {7}
    for other in others:
        assert other.timings.cached_tokens == tokens - 1 and other.timings.computed_tokens < 20
    alone = lm.generate(prompt, temperature=1.0, seed=7, max_tokens=8)
    assert (alone.tokens, alone.logprobs) == (first.tokens, first.logprobs) and alone.choices == (alone,)
    again = lm.generate(prompt, temperature=1.0, seed=7, max_tokens=8, n=3).choices
    assert [answer.tokens for answer in again] == [answer.tokens for answer in (first, *others[:2])]
    with pytest.raises(RequestError) as refused:
        lm.stream(prompt, n=2)
    assert refused.value.place == "n" and not lm.engine.busy


def test_choices_begin_when_the_first_is_cancelled(small: Small) -> None:
    engine = small.engine()
    first = engine.add([1, 2, 3], Sampling(max_tokens=4, temperature=1.0, seed=1, n=3))
    others = [*first.others]
    engine.cancel(first)
    engine.cancel(others[0])
    while engine.busy:
        engine.step()
        engine.check_integrity()
    assert [other.reason for other in others] == ["cancelled", "length"]


def test_a_draft_guesses_what_each_choice_draws(tiny_path: Path, random: LanguageModel) -> None:
    """The model as its own draft: nothing changes, and its guesses come true for further answers, too."""
    asked = {"max_tokens": 30, "temperature": 1.0, "seed": 3, "n": 2, "min_tokens": 20}
    with assay.load(tiny_path, threads=1, draft=tiny_path) as lm:
        drafted = lm.generate("x", **asked)
        steps = lm.engine.steps
        assert not lm.engine.busy
    plain = random.generate("x", **asked)
    for one, other in zip(drafted.choices, plain.choices, strict=True):
        assert (one.tokens, one.logprobs) == (other.tokens, other.logprobs)
    assert steps < 12


def test_a_stop_string_meets_what_penalties_and_choices_make(load: Load) -> None:
    """It crosses tokens' borders in answers that are changed, too."""
    lm = load()
    changed = {"max_tokens": 24, "temperature": 1.0, "seed": 5, "repetition_penalty": 1.2, "n": 2}
    free = lm.generate("Once upon a time", **changed)
    stop = free.others[0].text[9:16]
    stopped = lm.generate("Once upon a time", stop=stop, **changed)
    whole = free.others[0].text
    assert stopped.others[0].text == whole[: whole.index(stop)]
    assert stopped.others[0].finish_reason == "stop"

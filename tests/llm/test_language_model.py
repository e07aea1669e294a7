"""Answers side by side on one model: streams that are read in turns, threads, what is left half read."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from assay.errors import RequestError
from assay.llm.language_model import LanguageModel

PROMPTS = ["Once upon a time", "The capital of France is", "def add(a, b):", "1, 2, 3, 4,"]


@pytest.fixture(scope="module")
def model(load: Callable[..., LanguageModel]) -> LanguageModel:
    return load(threads=2, context=512, cache_tokens=4096)


@pytest.fixture(scope="module")
def texts(model: LanguageModel) -> list[str]:
    """Each prompt's answer, alone."""
    return [model.generate(prompt, max_tokens=20).text for prompt in PROMPTS]


def test_streams_read_in_turns_lose_nothing(model: LanguageModel, texts: list[str]) -> None:
    draw = random.Random(0)
    streams = [model.stream(prompt, max_tokens=20) for prompt in PROMPTS]
    found = ["" for _ in PROMPTS]
    left = list(range(len(PROMPTS)))
    while left:
        number = draw.choice(left)
        piece = next(streams[number], None)
        if piece is None:
            left.remove(number)
        else:
            found[number] += piece
    assert found == texts
    assert [stream.completion.text for stream in streams] == texts
    assert not model.engine.busy


def test_a_call_beside_an_open_stream_disturbs_neither(model: LanguageModel, texts: list[str]) -> None:
    stream = model.stream(PROMPTS[0], max_tokens=20)
    first = next(stream)
    assert model.generate(PROMPTS[1], max_tokens=20).text == texts[1]
    assert first + "".join(stream) == texts[0]


def test_threads_share_a_model(model: LanguageModel, texts: list[str]) -> None:
    with ThreadPoolExecutor(8) as pool:
        wanted = [*range(len(PROMPTS))] * 4
        found = pool.map(lambda number: model.generate(PROMPTS[number], max_tokens=20).text, wanted)
        assert list(found) == [texts[number] for number in wanted]
    assert not model.engine.busy
    model.engine.check_integrity()


def test_a_dropped_stream_frees_its_pages(model: LanguageModel, texts: list[str]) -> None:
    free = model.engine.pages.free
    for reads in (0, 1, 3):
        stream = model.stream(PROMPTS[0], max_tokens=20)
        for _ in range(reads):
            next(stream)
        del stream
        assert not model.engine.busy and model.engine.pages.free == free
    closed = model.stream(PROMPTS[2], max_tokens=20)
    next(closed)
    closed.close()
    assert closed.completion.finish_reason == "cancelled" and next(closed, None) is None
    assert model.generate(PROMPTS[2], max_tokens=20).text == texts[2]


def test_a_batch_with_a_bad_prompt_leaves_nothing_behind(model: LanguageModel) -> None:
    with pytest.raises(RequestError) as found:
        model.generate_batch([PROMPTS[0], "word " * 600], max_tokens=4)
    assert found.value.place.startswith("prompts[1]")
    assert not model.engine.busy


def test_arguments_of_another_kind_are_refused_by_name(model: LanguageModel) -> None:
    endless = iter(int, 1)
    for call, place in (
        (lambda: model.generate(None), "prompt"),
        (lambda: model.generate([{"role": "user", "content": "x"}]), "prompt"),
        (lambda: model.chat("hi"), "messages"),
        (lambda: model.chat([{"role": "martian", "content": "x"}]), "messages[0].role"),
        (lambda: model.stream(5), "messages"),
        (lambda: model.generate_batch(None), "prompts"),
        (lambda: model.generate_batch(["a", 5]), "prompts[1] › prompt"),
        (lambda: model.generate_batch(endless), "prompts"),
        (lambda: model.generate("x", max_tokens=True), "max_tokens"),
        (lambda: model.generate("x", temperature=10**400), "temperature"),
        (lambda: model.generate("x", top_p="1"), "top_p"),
        (lambda: model.generate("x", stop=5), "stop"),
        (lambda: model.generate("x", stop=endless), "stop"),
        (lambda: model.generate("x", temprature=1.0), "temprature"),
        (lambda: model.logits("Hello"), "tokens"),
        (lambda: model.logits(None), "tokens"),
        (lambda: model.logits([]), "tokens"),
        (lambda: model.logits([[1]]), "tokens[0]"),
        (lambda: model.logits([1, 1.5]), "tokens[1]"),
        (lambda: model.logits([True]), "tokens[0]"),
        (lambda: model.logits(range(10**9)), "tokens"),
    ):
        with pytest.raises(RequestError) as found:
            call()
        assert found.value.place == place
    assert not model.engine.busy


def test_one_stop_string_may_stand_alone(model: LanguageModel) -> None:
    alone, listed = (model.generate(PROMPTS[0], max_tokens=20, stop=stop) for stop in ("a", ["a"]))
    assert alone.text == listed.text and alone.finish_reason == "stop"

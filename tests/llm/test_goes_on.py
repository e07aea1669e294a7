"""A request that goes on after a crash: whatever was drawn before, the rest is the same."""

from __future__ import annotations

import time

import pytest

from assay.errors import DeadlineExceeded, RequestError
from assay.llm.engine import Engine
from assay.llm.request import Sampling

REQUESTS = (
    Sampling(seed=3, max_tokens=24),
    Sampling(seed=3, temperature=1.0, n=3, max_tokens=16, repetition_penalty=1.2, presence_penalty=0.5),
    Sampling(seed=1, temperature=1.0, max_tokens=40, regex="[a-z ]{10,30}"),
    Sampling(seed=2, temperature=0.7, max_tokens=30, bad_words=("the",), min_tokens=20),
)


def answers(
    engine: Engine, prompt: list[int], sampling: Sampling, drawn: list[list[int]]
) -> list[tuple[list[int], str]]:
    first = engine.add(prompt, sampling, drawn)
    while engine.busy:
        engine.step()
    engine.check_integrity()
    return [(each.tokens[len(prompt) :], each.reason) for each in first.choices]


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_the_rest_is_the_same(load, number: int) -> None:
    engine, sampling = load().engine, REQUESTS[number]
    prompt = load().tokenizer.encode("Once upon a time")
    whole = answers(engine, prompt, sampling, [])
    for first in (0, 1, 5, 15, 16, 23, 24, 40):
        for other in (0, 3, 16):
            drawn = [tokens[: other if n == 1 else first] for n, (tokens, _) in enumerate(whole)]
            assert answers(engine, prompt, sampling, drawn) == whole, (first, other)


def test_tokens_that_there_are_not_are_refused(load) -> None:
    with pytest.raises(RequestError):
        load().engine.add([1, 2], Sampling(), [[10**6]])
    assert not load().engine.busy


def test_a_deadline_ends_a_request_at_any_stage(load) -> None:
    engine = load().engine
    prompt = load().tokenizer.encode("word " * 600)
    for steps in (0, 1, 4):
        first = engine.add(prompt, Sampling(max_tokens=200, n=2, ignore_eos=True), timeout=0.2)
        other = engine.add(prompt[:9], Sampling(max_tokens=4))
        for _ in range(steps):
            engine.step()
        time.sleep(0.25)
        while engine.busy:
            engine.step()
        engine.check_integrity()
        assert all(isinstance(each.error, DeadlineExceeded) for each in first.choices)
        assert other.reason in ("length", "stop") and not other.error


def test_cancelling_at_any_stage_frees_all_blocks(load) -> None:
    engine = load().engine
    free = engine.pages.free
    prompt = load().tokenizer.encode("word " * 700)
    for steps in range(8):
        made = [engine.add(prompt, Sampling(max_tokens=50, n=2, ignore_eos=True)) for _ in range(3)]
        for _ in range(steps):
            engine.step()
        for each in made:
            for choice in each.choices:
                engine.cancel(choice)
            engine.check_integrity()
        assert not engine.busy and engine.pages.free == free

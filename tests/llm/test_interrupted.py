"""Ctrl-C at any moment of a step: what was asked for is answered all the same, to the same bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import assay
from assay.llm.engine import Engine
from assay.llm.guesses import Guesses, Lookup
from assay.llm.request import Sampling
from assay.llm.sequence import Sequence
from assay.runtime.cpu import Cpu
from llm.small import Small

HERE = str(Path(assay.__file__).parent / "llm")
MOMENTS = 100
SHARED = [(7 * index) % 300 for index in range(70)]
REQUESTS = (
    ([*SHARED, 1, 2], Sampling(max_tokens=6, n=2, seed=3, temperature=1.0)),
    ([5, 6, 7, 5, 6, 7, 5], Sampling(max_tokens=9, repetition_penalty=1.3, logit_bias={9: 4.0})),
    ([*SHARED, 4], Sampling(max_tokens=4)),
    (list(range(60)), Sampling(max_tokens=8, min_tokens=3)),
)
Answer = tuple[list[int], list[float], str]


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    device = Cpu(1, capacity=1 << 30)
    yield Small(device)
    device.close()


def engine_of(small: Small) -> tuple[Engine, list[Sequence]]:
    """With so few pages that sequences give theirs back, and the same prompts again for the cache."""
    engine = small.engine(pages=5, context=192, guesses=Guesses(Lookup()))
    engine.ends = frozenset({11, 12})
    first = [engine.add(prompt, sampling) for prompt, sampling in REQUESTS]
    return engine, [each for sequence in first for each in (sequence, *sequence.others)]


def finished(engine: Engine, sequences: list[Sequence]) -> list[Answer]:
    while engine.busy:
        engine.step()
        engine.check_integrity()
    assert engine.pages.free == engine.pages.count
    return [
        (sequence.tokens[sequence.prompt_length :], sequence.logprobs, sequence.reason)
        for sequence in sequences
    ]


def interrupted(engine: Engine, moment: int) -> int:
    """Steps until all is done, with one Ctrl-C before the `moment`-th line of the package's code. How many
    lines there were before the end, or that.
    """
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        if not frame.f_code.co_filename.startswith(HERE):
            return None
        lines += event == "line"
        if lines == moment:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        while engine.busy:
            engine.step()
    except KeyboardInterrupt:
        assert lines == moment
    finally:
        sys.settrace(before)
    return lines


def test_an_interrupt_at_any_moment_changes_no_answer(small: Small) -> None:
    expected = finished(*engine_of(small))
    assert {reason for *_, reason in expected} <= {"stop", "length"}
    lines = interrupted(engine_of(small)[0], -1)
    assert lines > 10 * MOMENTS
    for moment in range(1, lines, lines // MOMENTS):
        engine, sequences = engine_of(small)
        interrupted(engine, moment)
        assert finished(engine, sequences) == expected, moment
        again, sampling = REQUESTS[0]
        other = engine.add(again, sampling)  # what the cache holds is right, too
        assert finished(engine, [other])[0] == expected[0], moment

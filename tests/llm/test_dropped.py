"""Streams that are dropped at any moment: the collector does that wherever Python code runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import assay
from assay.llm.language_model import LanguageModel, Stream
from llm import tiny

LONG = "abcdefgh" * 9  # of more tokens than a page has
HERE = str(Path(assay.__file__).parent / "llm")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageModel]:
    with assay.load(
        tiny.write(tmp_path_factory.mktemp("dropped") / "m.gguf"), threads=1, cache_tokens=512
    ) as lm:
        yield lm


def answered(model: LanguageModel, held: list[Stream], moment: int) -> tuple[str, int]:
    """The text of an answer, amid which the streams `held` are dropped: at its `moment`-th line of the
    package's code. And the number of those lines.
    """
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal lines
        lines += event == "line"
        if lines == moment:
            held.clear()
        return trace if frame.f_code.co_filename.startswith(HERE) else None

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        return model.generate("abc", max_tokens=3).text, lines
    finally:
        sys.settrace(before)


def streams(model: LanguageModel) -> list[Stream]:
    held = [model.stream(LONG, max_tokens=9), model.stream(LONG, max_tokens=9)]
    next(held[0])
    return held


def test_a_stream_may_be_dropped_at_any_moment_of_another_answer(model: LanguageModel) -> None:
    expected, lines = answered(model, [], 0)
    held = streams(model)
    lines = max(lines, answered(model, held, 0)[1])
    assert lines > 1000
    held.clear()
    for moment in range(1, lines + 1):
        held = streams(model)
        assert answered(model, held, moment)[0] == expected, moment
        assert not held
        assert not model.engine.busy, moment
        model.engine.check_integrity()

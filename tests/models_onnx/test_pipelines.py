"""The catalogue's graphs do what they are for: they read text, hear speech and know files."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from assay import hub
from models_onnx import inputs, silero
from models_onnx.engines import Run
from models_onnx.examples import LINES, NAMES, PAGES, examples
from models_onnx.magika import labelled
from models_onnx.ppocr import Reader, characters

SPEECH, SILENCE = 1.0, 0.6
"""Seconds."""


@pytest.fixture(scope="session")
def reader(engine: Callable[[str], Run]) -> Reader:
    graphs = (engine(name) for name in ("ppocr-det", "ppocr-cls", "ppocr-rec"))
    return Reader(*graphs, characters(hub.pull("ppocr-rec")))


@pytest.mark.parametrize(("lines", "shape"), [(PAGES[0], (224, 512)), (PAGES[1], (256, 480))])
def test_text_is_found_and_read(reader: Reader, lines: Sequence[str], shape: tuple[int, int]) -> None:
    picture = inputs.page(lines, shape)
    boxes = reader.find(picture)
    for number, (left, top, right, bottom) in enumerate(boxes):
        ink = np.argwhere(picture[top:bottom, left:right, 0] < 128)
        assert ink.min(0)[1] < 16 and top <= 24 + 64 * number + 24 <= bottom
    assert reader.read(picture) == list(lines)
    assert reader.read(picture[::-1, ::-1]) == list(lines)[::-1]  # a page upside down is read from its end


def test_lines_of_many_lengths_are_read_alone_and_in_a_batch(reader: Reader) -> None:
    lines = [inputs.line(text) for text in LINES]
    assert [reader.text(line) for line in lines] == reader.texts(lines) == list(LINES)


def test_lines_upside_down_are_turned(reader: Reader) -> None:
    lines = [inputs.line(text, size) for text, size in zip(LINES, (24, 32, 48, 24, 32), strict=True)]
    assert all(found is line for found, line in zip(reader.upright(lines), lines, strict=True))
    turned = reader.upright([line[::-1, ::-1] for line in lines])
    assert all(np.array_equal(found, line) for found, line in zip(turned, lines, strict=True))


@pytest.mark.parametrize(
    ("name", "rate"), [(name, rate) for name, rates in silero.RATES.items() for rate in rates]
)
def test_speech_is_heard_and_silence_is_not(engine: Callable[[str], Run], name: str, rate: int) -> None:
    quiet = inputs.silence(rate, SILENCE)
    sound = np.concatenate([quiet, inputs.speech(rate, SPEECH), quiet])
    chances = silero.chances(engine(name), name, sound, rate)
    seconds = (np.arange(len(chances)) + 0.5) * silero.CHUNK[rate] / rate
    # It takes some chunks for speech to be certain, and for it to be over.
    speaking = (seconds > SILENCE + 0.3) & (seconds < SILENCE + SPEECH - 0.1)
    silent = (seconds < SILENCE - 0.1) | (seconds > SILENCE + SPEECH + 0.2)
    assert np.median(chances[speaking]) > 0.9 and chances[speaking].min() > 0.5
    assert chances[silent].max() < 0.25


def test_files_get_their_labels(engine: Callable[[str], Run]) -> None:
    contents = inputs.files()
    found = labelled(engine("magika"), hub.pull("magika"), list(contents.values()))
    assert [label for label, _ in found] == list(contents)
    assert min(chance for _, chance in found) > 0.7


@pytest.mark.parametrize("name", NAMES)
def test_examples_have_answers_that_are_numbers(engine: Callable[[str], Run], name: str) -> None:
    made = examples(name)
    assert len({tuple(np.shape(each) for each in example.values()) for example in made}) > len(made) // 2
    for example in made:
        for found in engine(name)(example).values():
            assert np.isfinite(found).all() and found.size > 0

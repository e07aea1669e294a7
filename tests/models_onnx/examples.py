"""Inputs of each graph of the catalogue, of several shapes, made of pictures, sounds and files."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from assay import hub
from models_onnx import inputs
from models_onnx.magika import Features
from models_onnx.ppocr import UPRIGHT_WIDTH, line_input, normal
from models_onnx.silero import RATES, WITHOUT_RATE, chunks

LINES = ("Hello, World!", "Gemm(A, B, C)", "same bits, any threads", "Opset 21", "Paris 1889")
PAGES = (LINES[:3], ("Paris 1889", "Width 640, height 480", "Speed: 93%"))
"""Texts that are read exactly as they are written; in others a space may be lost."""
NAMES = ("ppocr-det", "ppocr-rec", "ppocr-cls", *RATES, "magika")
Example = dict[str, NDArray[np.generic]]


def _pages(*shapes: tuple[int, int]) -> list[Example]:
    made = [{"x": normal(inputs.page(PAGES[0], shape))[None]} for shape in shapes]
    two = [normal(inputs.page(page, (64, 320))) for page in PAGES]
    return [*made, {"x": np.stack(two)}]


def _lines() -> list[Example]:
    alone = [
        {"x": line_input(inputs.line(text, size))[None]}
        for text, size in zip(LINES[:3], (24, 32, 48), strict=True)
    ]
    return [*alone, {"x": np.stack([line_input(inputs.line(text), 320) for text in LINES])}]


def _ways_up() -> list[Example]:
    lines = [inputs.line(text) for text in LINES]
    made = [line_input(each, UPRIGHT_WIDTH) for each in (*lines, *(line[::-1, ::-1] for line in lines))]
    return [{"x": np.stack(made[:count])} for count in (1, 7, len(made))]


def _sounds(name: str) -> list[Example]:
    """Chunks in a row, and as one batch, with a state as an earlier chunk might have left."""
    made = []
    for rate in RATES[name]:
        parts = chunks(inputs.speech(rate, 0.5), rate)
        for count in (1,) if name == "silero-vad-openvino" else (1, 3):
            some = parts[5 : 5 + count]
            if name == "silero-vad-sequence":
                made.append({"input": some, "h": _state((1, 1, 128)), "c": _state((1, 1, 128))})
                continue
            rates = {} if name in WITHOUT_RATE else {"sr": np.array(rate, np.int64)}
            made.append({"input": some, "state": _state((2, count, 128)), **rates})
    return made


def _state(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.Generator(np.random.PCG64(2)).uniform(-0.5, 0.5, shape).astype(np.float32)


def examples(name: str) -> list[Example]:
    """Inputs of the graph that the catalogue has by this name."""
    match name:
        case "ppocr-det":
            return _pages((96, 224), (160, 320))
        case "ppocr-rec":
            return _lines()
        case "ppocr-cls":
            return _ways_up()
        case "magika":
            features = Features(hub.pull("magika"))
            rows = [features.of(content) for content in inputs.files().values()]
            return [{"bytes": np.stack(rows[:count])} for count in (1, len(rows))]
        case _:
            return _sounds(name)

"""Text in pictures, end to end: where it is, which way up, what it says. Any engine runs the graphs.

The settings (threshold, by how much boxes grow, sizes) are those that PP-OCRv4 was published with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from PIL import Image

from models_onnx.engines import Run

Box = tuple[int, int, int, int]
"""left, top, right and bottom, in pixels; upright, as all text here."""
THRESHOLD, CERTAIN, GROWTH = 0.3, 0.5, 1.6
LINE, UPRIGHT_WIDTH, TURNED = 48, 192, 0.9


def normal(picture: NDArray[np.uint8]) -> NDArray[np.float32]:
    """float32[3, height, width] in -1 … 1, blue first, of uint8[height, width, 3]."""
    scaled = (picture[:, :, ::-1].astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1))


def resized(picture: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(picture).resize((width, height), Image.Resampling.BILINEAR))


def components(mask: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """The pixels [count, (y, x)] of each connected part of a mask, by flood from the first of each."""
    left = mask.copy()
    found = []
    for seed in np.argwhere(mask):
        if not left[tuple(seed)]:
            continue
        left[tuple(seed)] = False
        part = [tuple(seed)]
        for y, x in part:
            for at in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if 0 <= at[0] < mask.shape[0] and 0 <= at[1] < mask.shape[1] and left[at]:
                    left[at] = False
                    part.append(at)
        found.append(np.array(part))
    return found


def boxes(chance: NDArray[np.float32]) -> list[Box]:
    """Of chance[height, width] that a pixel is in the middle of text: a box around each, from the top."""
    height, width = chance.shape
    found = []
    for part in components(chance > THRESHOLD):
        (top, left), (bottom, right) = part.min(0), part.max(0) + 1
        if min(bottom - top, right - left) < 3 or chance[top:bottom, left:right].mean() < CERTAIN:
            continue
        # The graph marks text without its rim: a box grows by its area over its circumference.
        rim = round((bottom - top) * (right - left) * GROWTH / (2 * (bottom - top + right - left)))
        left, top = max(left - rim, 0), max(top - rim, 0)
        found.append((int(left), int(top), int(min(right + rim, width)), int(min(bottom + rim, height))))
    return sorted(found, key=lambda box: (box[1], box[0]))


def characters(path: Path) -> list[str]:
    """What each class of the recognition graph is: nothing, the characters of its metadata, a space."""
    (listed,) = (each.value for each in onnx.load(path).metadata_props if each.key == "character")
    return ["", *listed.split("\n"), " "]


def decoded(chances: NDArray[np.float32], names: Sequence[str]) -> str:
    """The text of chances[steps, classes]: a class that goes on over steps is one character (CTC)."""
    best = chances.argmax(1)
    first = np.diff(best, prepend=-1) != 0
    return "".join(names[each] for each in best[first])


def line_input(picture: NDArray[np.uint8], width: int | None = None) -> NDArray[np.float32]:
    """float32[3, 48, width]: a line as the graphs of lines want it, zeros on its right up to `width`."""
    own = max(1, round(picture.shape[1] * LINE / picture.shape[0]))
    own = own if width is None else min(own, width)
    made = np.zeros((3, LINE, width or own), np.float32)
    made[:, :, :own] = normal(resized(picture, LINE, own))
    return made


@dataclass(frozen=True)
class Reader:
    """The three graphs, and the characters of the third."""

    detect: Run
    classify: Run
    recognise: Run
    names: Sequence[str]

    def find(self, picture: NDArray[np.uint8]) -> list[Box]:
        """The boxes around lines of text in a picture whose sides are multiples of 32."""
        (found,) = self.detect({"x": normal(picture)[None]}).values()
        return boxes(found[0, 0])

    def upright(self, lines: Sequence[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
        """The lines, those turned round that stand upside down."""
        (found,) = self.classify(
            {"x": np.stack([line_input(each, UPRIGHT_WIDTH) for each in lines])}
        ).values()
        return [
            each[::-1, ::-1] if chance > TURNED else each
            for each, chance in zip(lines, found[:, 1], strict=True)
        ]

    def text(self, line: NDArray[np.uint8]) -> str:
        """What one line says."""
        (found,) = self.recognise({"x": line_input(line)[None]}).values()
        return decoded(found[0], self.names)

    def texts(self, lines: Sequence[NDArray[np.uint8]]) -> list[str]:
        """What the lines say, all in one batch, as wide as the widest."""
        width = max(line_input(each).shape[2] for each in lines)
        (found,) = self.recognise({"x": np.stack([line_input(each, width) for each in lines])}).values()
        return [decoded(each, self.names) for each in found]

    def read(self, picture: NDArray[np.uint8]) -> list[str]:
        """All lines of a picture, from the top."""
        lines = [picture[top:bottom, left:right] for left, top, right, bottom in self.find(picture)]
        return [self.text(each) for each in self.upright(lines)]

"""What kind of file some bytes are, by Magika's graph. Any engine runs it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models_onnx.engines import Run


class Features:
    """What the graph looks at, by the settings that lie beside its file."""

    def __init__(self, path: Path) -> None:
        settings = json.loads((path.parent / "config.min.json").read_text())
        self.labels: list[str] = settings["target_labels_space"]
        self._begin, self._end = settings["beg_size"], settings["end_size"]
        self._block, self._padding = settings["block_size"], settings["padding_token"]

    def of(self, content: bytes) -> NDArray[np.int32]:
        """int32[2048]: the first bytes after white space and the last before it, each filled up outwards."""
        begin = content[: self._block].lstrip()[: self._begin]
        end = content[-self._block :].rstrip()[-self._end :]
        made = np.full(self._begin + self._end, self._padding, np.int32)
        made[: len(begin)] = list(begin)
        made[len(made) - len(end) :] = list(end)
        return made


def labelled(run: Run, path: Path, contents: Sequence[bytes]) -> list[tuple[str, float]]:
    """The likeliest label of each content, and how likely it is; `path` is the graph's file."""
    features = Features(path)
    found = run({"bytes": np.stack([features.of(each) for each in contents])})["target_label"]
    return [(features.labels[row.argmax()], float(row.max())) for row in found]

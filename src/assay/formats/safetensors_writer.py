"""Write a safetensors file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.formats.safetensors_header import TYPES
from assay.formats.tensors import TensorInfo


def write_safetensors(
    path: Path, tensors: Mapping[str, TensorInfo], raw: Callable[[str], NDArray[np.uint8]]
) -> None:
    """Write these tensors, whose bytes `raw` gives one after the other. Raises OSError."""
    codes = {dtype: code for code, dtype in TYPES.items()}
    table: dict[str, object] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, info in tensors.items():
        offsets = [place, place + info.nbytes]
        table[name] = {"dtype": codes[info.dtype], "shape": info.shape, "data_offsets": offsets}
        place += info.nbytes
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        for name in tensors:
            file.write(raw(name).data)

"""Write a safetensors file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.formats.safetensors_header import TYPES
from assay.formats.tensors import TensorInfo

Raw = Callable[[str], NDArray[np.uint8]]


def write_safetensors(path: Path, tensors: Mapping[str, TensorInfo], raw: Raw) -> None:
    """Write these tensors, whose bytes `raw` gives one after the other. Raises OSError."""
    codes = {dtype: code for code, dtype in TYPES.items()}
    table, end = dict[str, object](__metadata__={"format": "pt"}), 0
    for name, info in tensors.items():
        first, end = end, end + info.nbytes
        table[name] = {"dtype": codes[info.dtype], "shape": info.shape, "data_offsets": [first, end]}
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    with path.open("wb") as file:
        file.write(len(head).to_bytes(8, "little") + head)
        file.writelines(raw(name).data for name in tensors)

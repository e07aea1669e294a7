"""How much our rounding to blocks errs beside ggml's, in mean square, and how long it takes.

    python -m benchmarks.rounding

ggml's library is llama-cpp-python's. tests/formats/test_quant.py has the figures of `numbers`.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from assay.formats.quant import dequantise, quantise
from assay.tensor.dtype import QUANTISED, DType

Floats = npt.NDArray[np.float32]


def numbers(kind: str) -> Floats:
    """[64, 1024] numbers like weights': "normal", or "heavy" with outliers."""
    rng = np.random.default_rng(0)
    found = rng.standard_normal((64, 1024)) if kind == "normal" else rng.standard_t(4, (64, 1024))
    return found.astype(np.float32)


def by_ggml(x: Floats, dtype: DType) -> npt.NDArray[np.uint8]:
    import llama_cpp

    (path,) = Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so")
    library = ctypes.CDLL(str(path))
    out = np.empty(dtype.nbytes(x.size), np.uint8)
    address, count = ctypes.c_void_p, ctypes.c_int64
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, address, address, count, count, count, address]
    code = gguf.GGMLQuantizationType[dtype.name.upper()].value
    library.ggml_quantize_chunk(code, x.ctypes.data, out.ctypes.data, 0, *x.shape, None)
    return out


def error(raw: npt.NDArray[np.uint8], dtype: DType, x: Floats) -> float:
    return float(np.square(dequantise(raw, dtype, x.shape).astype(np.float64) - x).mean())


def main() -> None:
    for dtype in QUANTISED:
        for kind in ("normal", "heavy"):
            x = numbers(kind)
            start = time.perf_counter()
            raw = quantise(x, dtype)
            spent = time.perf_counter() - start
            ours, theirs = error(raw, dtype, x), error(by_ggml(x, dtype), dtype, x)
            print(
                f"{dtype.name:7} {kind:7} ours {ours:.4e} ggml {theirs:.4e} ratio {ours / theirs:.4f} "
                f"{1e9 * spent / x.size:5.0f} ns each"
            )


if __name__ == "__main__":
    main()

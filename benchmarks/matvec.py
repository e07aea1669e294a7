"""Matrix-vector products of every block type, by bytes of the file a second beside Q4_0's.

    python -m benchmarks.matvec [TYPE …]

Each type has so many matrices of 4096 × 4096 that none of them is in a cache when its turn comes. Types take
turns; rates are medians of the rounds, ratios medians of each round's own.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np
from numpy.typing import NDArray

from assay.ops.builder import Builder
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import load
from assay.tensor.dtype import BY_NAME, F32, I8, I32, QUANTISED, DType
from benchmarks import limits

SIZE = 4096
COLD = 192 << 20
"""Bytes of one type's matrices, at least: several times what caches hold."""
GOAL = 0.70


class Products:
    """One vector times each of a type's matrices, in a single run."""

    def __init__(self, dtype: DType, device: Cpu) -> None:
        self._raw = _blocks(dtype)
        self.nbytes = self._raw.nbytes * -(-COLD // self._raw.nbytes)
        b = Builder(f"products of {dtype.name}")
        x = (
            b.input("x", I8, 1, SIZE),
            b.input("scale", F32, 1, SIZE // 32),
            b.input("sum", I32, 1, SIZE // 32),
        )
        for number in range(self.nbytes // self._raw.nbytes):
            w = b.weight(f"w{number}", dtype, SIZE, SIZE)
            b.output(b.op("linear_quantized", *x, w))
        graph = b.graph()
        self._executor = Executor(graph, device, load(graph, self, device), {}, {})
        q = np.random.default_rng(1).integers(-127, 128, (1, SIZE), np.int8)
        total = q.reshape(1, -1, 32).sum(-1, dtype=np.int32)
        self._inputs = {"x": q, "scale": np.full((1, SIZE // 32), 0.01, np.float32), "sum": total}

    def raw(self, name: str) -> NDArray[np.uint8]:
        return self._raw

    def run(self) -> float:
        """Seconds."""
        began = time.perf_counter()
        self._executor.run({}, self._inputs)
        return time.perf_counter() - began


def _blocks(dtype: DType) -> NDArray[np.uint8]:
    """A matrix of any integers and small scales."""
    rng = np.random.default_rng(0)
    blocks = rng.integers(0, 256, (SIZE * SIZE // dtype.block, dtype.size), dtype=np.uint8)
    record = blocks.view(dtype.layout)[..., 0]
    for name, kind in dtype.fields:
        if kind == "<f2":
            record[name] = rng.normal(0, 0.05, record.shape)
    return blocks.reshape(-1)


def main() -> int:
    """Measure and print. Returns 1 if a type stays below the goal."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("types", nargs="*", default=[dtype.name for dtype in QUANTISED], metavar="TYPE")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument(
        "--rounds", type=int, default=15, metavar="N", help="every type in turn, N times (15)"
    )
    asked = parser.parse_args()
    device = Cpu(asked.threads)
    names = ["q4_0", *(name for name in asked.types if name != "q4_0")]
    products = {name: Products(BY_NAME[name], device) for name in names}
    rates: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(asked.rounds + 1):
        for name, each in products.items():
            rates[name].append(each.nbytes / each.run() / 1e9)
    limit = limits.measure(asked.threads).read / 1e9
    print(f"  memory gives {limit:.1f} GB/s; {asked.threads} threads, {SIZE} × {SIZE}")
    missed = 0
    for name in names:
        pairs = zip(rates[name][1:], rates["q4_0"][1:], strict=True)
        ratios = sorted(own / other for own, other in pairs)
        rate, ratio = median(rates[name][1:]), median(ratios)
        missed += ratio < GOAL
        verdict = "" if ratio >= GOAL else f"  below {GOAL}"
        print(
            f"  {name:8} {rate:6.2f} GB/s, {rate / limit:4.0%} of memory, "
            f"{ratios[0]:.2f} {ratio:.2f} {ratios[-1]:.2f} of q4_0's{verdict}"
        )
    return int(missed > 0)


if __name__ == "__main__":
    raise SystemExit(main())

"""What a measurement must say beside its figures: the conditions, and the machine's limits in that run."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from assay import __version__

if TYPE_CHECKING:
    from assay.runtime.cpu import Cpu

LARGE, SMALL = 512 << 20, 128 << 10
"""Bytes read for the memory's bandwidth, far more than any cache holds, and for the cache's."""
PIECE = 64 << 10
"""Bytes that a thread reads at a time."""
ROUNDS = 2_000_000
"""Of the probes of arithmetic: some milliseconds."""
OPERANDS = 64
"""Lines of operands that they find: more than they load, and they stay in the first-level cache."""


def processor() -> str:
    """The processor's name and how many of it this process may use."""
    from assay import settings

    name = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            name = line.partition(":")[2].strip()
            break
    return f"{name}, {settings.THREADS.default()} processors"


def conditions(threads: int, seed: int, **more: object) -> dict[str, object]:
    """What the figures of a benchmark depend on."""
    from assay.kernels import target

    chosen = target.current()
    return {
        "processor": processor(),
        "target": f"{chosen.level}: {chosen.cpu}",
        "threads": threads,
        "seed": seed,
        "python": platform.python_version(),
        "assay": __version__,
        **{name: metadata.version(name) for name in ("numba", "llvmlite", "numpy")},
        **more,
    }


def memory() -> dict[str, int]:
    """Bytes of this machine's memory: "MemTotal", "MemAvailable" and so on, as Linux says."""
    fields = (line.split() for line in _lines(Path("/proc/meminfo")))
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if len(words) > 1}


def _lines(path: Path) -> Iterator[str]:
    if path.exists():
        yield from path.read_text("utf-8", "replace").splitlines()


@dataclass(frozen=True)
class Limits:
    """The most that the team reached: bytes per second from memory and from caches, operations per second."""

    memory: float
    cache: float
    float32: float
    int8: float

    def figures(self) -> dict[str, float]:
        return {
            "memory_gb_per_s": round(self.memory / 1e9, 2),
            "cache_gb_per_s": round(self.cache / 1e9, 2),
            "float32_gflop_per_s": round(self.float32 / 1e9, 1),
            "int8_gop_per_s": round(self.int8 / 1e9, 1),
        }


def limits(device: Cpu) -> Limits:
    """Measured now, with kernels that do nothing else (kernels/probe.py)."""
    import numpy as np

    from assay.kernels.cache import addresses
    from assay.kernels.control import LINE

    addresses(["probe.read", "probe.multiply", "probe.dot"])
    threads = device.team.nthreads
    out = np.zeros(LINE * (threads + 2) // 8, np.int64)
    operands = np.full(LINE * OPERANDS // 4, 1e-3, np.float32)
    data = device.allocate(LARGE, owner="limits").array(np.dtype(np.int64), (LARGE // 8,))
    data[:] = 1

    def read(nbytes: int, times: int) -> float:
        pieces = nbytes // PIECE
        return nbytes * times / best(lambda: device.call("probe.read", data, PIECE, pieces, times, out))

    def compute(kernel: str) -> float:
        seconds = best(lambda: device.call(kernel, operands, ROUNDS, out))
        return int(out[0]) * threads / seconds

    return Limits(read(LARGE, 1), read(SMALL, 4000), compute("probe.multiply"), compute("probe.dot"))


def best(run: Callable[[], object], repeats: int = 5) -> float:
    """The least seconds of several runs, after one that isn't counted."""
    run()
    return min(seconds(run) for _ in range(repeats))


def seconds(run: Callable[[], object]) -> float:
    """How long a run takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began

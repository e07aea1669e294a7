"""What a measurement must say beside its figures: the conditions, the machine's limits in that run, and the
least time that it needs for the work.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from assay import __version__, settings
from assay.kernels.sizes import PAGE

if TYPE_CHECKING:
    from assay.compiler.plan import Launch, Plan
    from assay.runtime.cpu import Cpu

PRODUCTS = ("linear", "linear_quantized")
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
    name = _said("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
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


def memory(name: str) -> int:
    """Bytes of this machine's memory by Linux's name: "MemTotal", "MemAvailable" and so on."""
    return int(_said("/proc/meminfo", name).removesuffix("kB") or 0) * 1024


def _said(file: str, name: str) -> str:
    """What the first line of a name says in a file of lines `name: value`; nothing if there is none."""
    lines = Path(file).read_text("utf-8", "replace").splitlines() if Path(file).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


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
    from assay.kernels.sizes import LINE

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
    found = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return min(found[1:])


@dataclass(frozen=True)
class Work:
    """Operations, bytes that come from memory, and bytes of all else that is read or written."""

    shape: str
    integer: bool
    operations: int
    weights: int
    values: int

    def least_seconds(self, limits: Limits) -> tuple[float, str]:
        """What the machine needs at least, and for what."""
        peak, kind = (limits.int8, "int8") if self.integer else (limits.float32, "float32")
        return max(
            (self.operations / peak, kind),
            (self.weights / limits.memory, "memory"),
            (self.values / limits.cache, "cache"),
        )


def work_of(plan: Plan, launch: Launch, binding: Mapping[str, int], keys: int) -> Work:
    """The work of a launch in a step of one sequence, which then has `keys` tokens in the cache."""
    graph = plan.graph
    nodes = [graph.nodes[index] for index in launch.nodes]
    first, tokens = nodes[0], binding["T"]
    # Values between the nodes of a chain stay in registers.
    inner = {name for node in nodes[:-1] for name in node.outputs}
    names = dict.fromkeys(
        name for node in nodes for name in (*node.inputs, *node.outputs) if name not in inner
    )
    weights = values = 0
    for name in names:
        size = graph.types[name].nbytes(binding)
        if name in graph.weights and first.op == "embedding":
            continue  # It reads a row for each token: less than it writes.
        if name in graph.weights and first.op in PRODUCTS:
            weights += size
        elif name in graph.states or (name in plan.aliases and name in first.inputs):
            pages = graph.types[name].shape[0].at(binding)
            values += size // (pages * PAGE) * (keys if first.op == "attention" else tokens)
        elif name not in plan.aliases:
            values += size
    shape = tuple(dim.at(binding) for dim in graph.types[first.inputs[0]].shape)
    operations = 0
    text = "×".join(map(str, shape))
    if first.op in PRODUCTS:
        n, k = (dim.at(binding) for dim in graph.types[first.inputs[-1]].shape)
        operations, text = 2 * shape[0] * k * n, f"{shape[0]}×{k}→{n}"
    elif first.op == "attention":
        seen = sum(range(keys - tokens + 1, keys + 1))
        operations, text = 4 * shape[1] * seen, f"{text}, {keys} keys"
    return Work(text, first.op == "linear_quantized", operations, weights, values)

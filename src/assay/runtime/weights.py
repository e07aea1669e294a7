"""Weights in a device's memory, in the layout that the graph's kernels want."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError
from assay.graph.graph import Graph, ValueType
from assay.kernels.sizes import packed_bytes
from assay.ops import registry
from assay.runtime.cpu import Cpu
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import DType

LoadProgress = Callable[[int, int], None]
"""Called with (bytes loaded, bytes in all)."""


class Source(Protocol):
    """Where weights come from: a file, as its bytes lie there."""

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The bytes of a weight, in the order of its rows."""
        ...


def panels(graph: Graph) -> frozenset[str]:
    """The weights that kernels want in panels. Raises ContractError when another node wants the same one in
    rows.
    """
    wanted: dict[str, bool] = {}
    for node in graph.nodes:
        for port, name in zip(registry.get(node.op).inputs, node.inputs, strict=True):
            if name in graph.weights and wanted.setdefault(name, port.panels) != port.panels:
                raise ContractError(
                    "one weight, two layouts",
                    place=f'node "{node.name}" ({node.op})',
                    want="panels or rows everywhere",
                    got=name,
                )
    return frozenset(name for name, in_panels in wanted.items() if in_panels)


def load(
    graph: Graph, source: Source, device: Cpu, progress: LoadProgress | None = None
) -> dict[str, Buffer]:
    """Each weight that a node reads, in a buffer of its own. The source is read once and not kept."""
    in_panels = panels(graph)
    names = [name for name in graph.weights if name in graph.uses]
    total = sum(graph.types[name].nbytes({}) for name in names)
    done = 0
    buffers: dict[str, Buffer] = {}
    for name in names:
        kind = graph.types[name]
        raw = source.raw(name)
        if name in in_panels:
            buffers[name] = _pack(raw, kind, device, name)
        else:
            buffers[name] = device.allocate(raw.nbytes, owner=name)
            device.copy_in(buffers[name], raw)
        done += kind.nbytes({})
        if progress:
            progress(done, total)
    return buffers


def pack_kernel(dtype: DType) -> str:
    """The kernel that repacks a weight of this type."""
    return f"pack.{dtype}" if dtype.quantised else f"pack.plain_{dtype.size}"


def _pack(raw: NDArray[np.uint8], kind: ValueType, device: Cpu, owner: str) -> Buffer:
    rows, columns = (dim.at({}) for dim in kind.shape)
    buffer = device.allocate(packed_bytes(kind.dtype.name, kind.dtype.size, rows, columns), owner=owner)
    device.call(pack_kernel(kind.dtype), raw, buffer.address, rows, columns)
    return buffer


def arrays(
    graph: Graph, decode: Callable[[str, ValueType], NDArray[np.generic]]
) -> Mapping[str, NDArray[np.generic]]:
    """Each weight that a node reads, as the numbers that it stands for: what references compute with."""
    return {name: decode(name, graph.types[name]) for name in graph.weights if name in graph.uses}

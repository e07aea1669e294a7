"""Weights in a device's memory, in the layout that the graph's kernels want."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError, FormatError
from assay.formats.quant import dequantise
from assay.graph.graph import Graph, ValueType
from assay.graph.text import quote
from assay.kernels.call import Argument
from assay.kernels.panels import packed_bytes
from assay.ops import registry
from assay.ops.resolution import place_of
from assay.runtime.cpu import Cpu
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import WEIGHT_TYPES, DType

SHARE = 32 << 20
"""Bytes of weights that are repacked between two reports of progress."""

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
        operator = registry.get(node.op)
        names = operator.named(node)
        for port in operator.inputs:
            name = names.get(port.name, "")
            if name in graph.weights and wanted.setdefault(name, port.panels) != port.panels:
                place, want = place_of(node), "panels or rows everywhere"
                raise ContractError("one weight, two layouts", place=place, want=want, got=name)
    return frozenset(name for name, in_panels in wanted.items() if in_panels)


def load(
    graph: Graph, source: Source, device: Cpu, progress: LoadProgress | None = None
) -> dict[str, Buffer]:
    """Each weight that a node reads, in a buffer of its own. The source is read once and not kept."""
    buffers, packs = lay_out(graph, source, device)
    repack(packs, device, progress)
    return buffers


def lay_out(graph: Graph, source: Source, device: Cpu) -> tuple[dict[str, Buffer], list[Pack]]:
    """Buffers for all weights that nodes read; those that kernels want in rows are filled. The others are
    left to `repack`. Raises FormatError for a weight that isn't finite, or has another number of bytes.
    """
    in_panels = panels(graph)
    buffers: dict[str, Buffer] = {}
    packs = []
    for name in graph.weights:
        if name not in graph.uses:
            continue
        kind = graph.types[name]
        if name in in_panels:
            packs.append(Pack(name, source, kind, device.allocate(_bytes_in_panels(kind), owner=name)))
            buffers[name] = packs[-1].target
        else:
            raw = _whole(name, kind, source.raw(name))
            if kind.dtype in WEIGHT_TYPES:
                values = dequantise(raw, kind.dtype, (math.prod(dim.at({}) for dim in kind.shape),))
                if not np.isfinite(values).all():
                    raise _not_finite(name, values)
            buffers[name] = device.allocate(raw.nbytes, owner=name)
            device.copy_in(buffers[name], raw)
    return buffers, packs


def _whole(name: str, kind: ValueType, raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bytes, if they are what the graph says: kernels read as many, whatever there is."""
    if raw.nbytes != kind.nbytes({}):
        want, got = f"{kind.nbytes({})} bytes for {kind}", f"{raw.nbytes} bytes"
        rule = "a weight's bytes don't fill its shape"
        raise FormatError(rule, place=f"tensor {quote(name)}", want=want, got=got)
    return raw


def _not_finite(name: str, values: NDArray[np.float32], row: int | None = None) -> FormatError:
    """The error about the first number that isn't finite, of a weight in one row or of one row of it."""
    column = int(np.argmin(np.isfinite(values)))
    got = f"{values[column]} at [{column if row is None else f'{row}, {column}'}]"
    rule, hint = "a weight that isn't finite", "the file is damaged, or was made from weights that were"
    return FormatError(rule, place=f"tensor {quote(name)}", want="finite numbers", got=got, hint=hint)


@dataclass(frozen=True)
class Pack:
    """One weight's way into panels."""

    name: str
    source: Source
    kind: ValueType
    target: Buffer

    @property
    def nbytes(self) -> int:
        """Of the weight in rows."""
        return self.kind.nbytes({})

    def read(self) -> NDArray[np.uint8]:
        """The weight's bytes. A source may have to make them, and not all of them are to be there at once."""
        return _whole(self.name, self.kind, self.source.raw(self.name))

    def kernel(self) -> str:
        return pack_kernel(self.kind.dtype)

    def arguments(self, raw: NDArray[np.uint8]) -> tuple[Argument, ...]:
        rows, columns = (dim.at({}) for dim in self.kind.shape)
        return raw, self.target.address, rows, columns

    def fault(self, row: int) -> FormatError:
        """The error about a row that isn't finite."""
        rows, columns = (dim.at({}) for dim in self.kind.shape)
        values = dequantise(self.read().reshape(rows, -1)[row], self.kind.dtype, (columns,))
        return _not_finite(self.name, values, row)


def repack(packs: Sequence[Pack], device: Cpu, progress: LoadProgress | None = None) -> None:
    """Fill the panels: nearly all of it native code, in which the interpreter is free for others.

    Raises FormatError for a weight that isn't finite.
    """
    total = sum(pack.nbytes for pack in packs)
    done = 0
    packs = sorted(packs, key=Pack.kernel)
    for kernel, wanted in groupby(packs, Pack.kernel):
        for share in _shares(wanted):
            found = device.call_all(kernel, [pack.arguments(pack.read()) for pack in share])
            if found:
                call, row = found
                raise share[call].fault(row)
            done += sum(pack.nbytes for pack in share)
            if progress:
                progress(done, total)


def pack_kernel(dtype: DType) -> str:
    """The kernel that repacks a weight of this type."""
    return f"pack.{dtype}"


def _bytes_in_panels(kind: ValueType) -> int:
    rows, columns = (dim.at({}) for dim in kind.shape)
    return packed_bytes(kind.dtype.name, kind.dtype.size, rows, columns)


def _shares(packs: Iterable[Pack]) -> Iterator[list[Pack]]:
    """The packs in runs of so many bytes."""
    share: list[Pack] = []
    for pack in packs:
        share.append(pack)
        if sum(pack.nbytes for pack in share) >= SHARE:
            yield share
            share = []
    if share:
        yield share

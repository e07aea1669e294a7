"""Kernel calls of one specialised node, as it writes them down."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.sizes import CHAIN_SCRATCH
from assay.ops import chain
from assay.ops.chain import Operand
from assay.ops.operator import Address, Argument, Scratch
from assay.ops.standard.site import Array, Site
from assay.tensor.dtype import BF16, F16, F32, F64, I64, U64, DType
from assay.tensor.narrow import numpy_of


@dataclass(frozen=True)
class Call:
    """One call of a kernel: arguments after the work counter, values read and written, bytes of scratch.

    With `once` all that it reads are constants: it is made when the plan is, and what it writes is kept.
    """

    kernel: str
    arguments: tuple[Argument, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: int = 0
    once: bool = False


class Emitter:
    """Collects calls, and the temporaries that they need."""

    def __init__(self, site: Site, constants: Set[str] = frozenset()) -> None:
        self._site = site
        self.calls: list[Call] = []
        self.fixed = set(constants)
        """Values that are the same in every run; those that a call makes of such alone join them."""
        self.temporaries: dict[str, int] = {}
        self.tables: dict[str, Array] = {}
        """Constants of this node's own."""
        self._narrowed: list[tuple[str, ValueType, DType, str]] = []

    def input(self, index: int, dtype: DType | None = None) -> Address:
        """An input, in another element type where one is said."""
        name, kind = self._site.node.inputs[index], self._site.type(index)
        return Address(name) if dtype is None or dtype == kind.dtype else self.cast(name, kind, dtype)

    def output(self, index: int = 0) -> Address:
        return Address(self._site.node.outputs[index])

    def widened(self, index: int) -> tuple[Address, DType]:
        """An input in an element type that kernels on single elements know: halves as float32, small integers
        and bool as int64, exactly.
        """
        dtype = wide(self._site.dtype(index))
        return self.input(index, dtype), dtype

    def floats(self, index: int) -> Address:
        """An input of a matrix product."""
        return self.input(index, whole(self._site.dtype(index)))

    def narrowed(self, dtype: DType, index: int = 0) -> Address:
        """Where an output is to be written in such a type; `finish` casts it to its own."""
        kind = self._site.made_type(index)
        if dtype == kind.dtype:
            return self.output(index)
        made = ValueType(dtype, kind.shape)
        target = self.temporary(made.nbytes({}))
        self._narrowed.append((target.name, made, kind.dtype, self.output(index).name))
        return target

    def finish(self) -> None:
        """Add the casts that are left."""
        for name, made, dtype, output in self._narrowed:
            self.cast(name, made, dtype, output)

    def constant(self, index: int) -> bool:
        """Whether an input is the same in every run."""
        return self._site.node.inputs[index] in self.fixed

    def table(self, array: Array) -> Address:
        """A constant that kernels read, such as the places where each output finds its inputs."""
        name = f"{next(filter(None, self._site.node.outputs))}~table{len(self.tables)}"
        self.tables[name] = array
        self.fixed.add(name)
        return Address(name)

    def temporary(self, nbytes: int) -> Address:
        """Memory of this node's own, while its calls run."""
        name = f"{next(filter(None, self._site.node.outputs))}~{len(self.temporaries)}"
        self.temporaries[name] = nbytes
        return Address(name)

    def chain(self, shape: Sequence[int], *links: chain.Link) -> None:
        """Add a chain whose results have that shape; the last link's is kept."""
        words = chain.arguments(prod(shape), 1, links)
        reads = [Address(operand.name) for operand in chain.sources(links)]
        target = Address(links[-1].makes.name)
        self.call(chain.KERNEL, words, reads=reads, writes=[target], scratch=CHAIN_SCRATCH)

    def copy(self, source: Operand, target: Operand, count: int, *after: Address) -> None:
        """Add a copy of so many elements from one view to another, `after` what writes other values."""
        words = chain.copied(source, target, count)
        reads, writes = [Address(source.name), *after], [Address(target.name)]
        self.call(chain.KERNEL, words, reads=reads, writes=writes, scratch=CHAIN_SCRATCH)

    def cast(self, name: str, kind: ValueType, dtype: DType, to: str = "") -> Address:
        """A value in another element type: in a temporary, or in the value of that name."""
        sizes = kind.sizes
        assert sizes is not None
        made = ValueType(dtype, kind.shape)
        target = to or self.temporary(made.nbytes({})).name
        self.chain(sizes, chain.pointwise("cast", [(name, kind)], (target, made)))
        return Address(target)

    def call(
        self,
        kernel: str,
        arguments: Sequence[object],
        *,
        writes: Sequence[Address],
        reads: Sequence[Address] | None = None,
        scratch: int = 0,
    ) -> None:
        """Add a call. The word "scratch" among the arguments stands for the scratch's two. It reads all
        values among them that it doesn't write, unless `reads` says otherwise.
        """
        words = tuple(Scratch() if isinstance(word, str) else cast(Argument, word) for word in arguments)
        if reads is None:
            reads = [word for word in words if isinstance(word, Address) and word not in writes]
        sources, targets = (tuple(address.name for address in each) for each in (reads, writes))
        once = all(name in self.fixed for name in sources)
        if once:
            self.fixed.update(targets)
        else:
            self.fixed.difference_update(targets)
        self.calls.append(Call(kernel, words, sources, targets, scratch, once))


def whole(dtype: DType) -> DType:
    """The element type of a matrix product's kernels: halves go by way of float32."""
    return F32 if dtype in (F16, BF16) else dtype


def wide(dtype: DType) -> DType:
    """The element type of kernels on single elements that holds another's numbers."""
    dtype = whole(dtype)
    return dtype if dtype in (F32, F64, I64, U64) else I64


def bits_of(number: float, dtype: DType) -> int:
    """A number's bits in an element type, as the word that a kernel finds."""
    raw = np.array(number).astype(numpy_of(dtype)).tobytes()
    return int.from_bytes(raw, "little", signed=True)

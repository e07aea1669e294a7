"""Kernel calls of one specialised node, as it writes them down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.ops.operator import Address, Argument, Scratch
from assay.ops.standard.site import Site


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

    def __init__(self, site: Site, constants: frozenset[str] | set[str] = frozenset()) -> None:
        self._site = site
        self._constants = constants
        self.calls: list[Call] = []
        self.temporaries: dict[str, int] = {}

    def input(self, index: int) -> Address:
        return Address(self._site.node.inputs[index])

    def output(self, index: int = 0) -> Address:
        return Address(self._site.node.outputs[index])

    def constant(self, index: int) -> bool:
        """Whether an input is the same in every run."""
        return self._site.node.inputs[index] in self._constants

    def temporary(self, nbytes: int) -> Address:
        """Memory of this node's own, while its calls run."""
        name = f"{next(filter(None, self._site.node.outputs))}~{len(self.temporaries)}"
        self.temporaries[name] = nbytes
        return Address(name)

    def call(
        self,
        kernel: str,
        arguments: Sequence[Argument | str],
        *,
        reads: Sequence[Address],
        writes: Sequence[Address],
        scratch: int = 0,
    ) -> None:
        """Add a call. The word "scratch" among the arguments stands for the scratch's two."""
        words = tuple(Scratch() if isinstance(word, str) else word for word in arguments)
        sources, targets = (tuple(address.name for address in each) for each in (reads, writes))
        once = all(name in self._constants for name in sources)
        self.calls.append(Call(kernel, words, sources, targets, scratch, once))

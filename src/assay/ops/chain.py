"""Chains of elementwise operations as kernels/elementwise.py reads them; one operation is a chain of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from assay.graph.dim import Dim
from assay.kernels.sizes import LOAD, LOAD_ROW, STORE
from assay.ops.operator import Address, Argument, Scratch, Site


@dataclass(frozen=True)
class Link:
    """One operation of a chain: its number in kernels/elementwise.py, the values that it reads and makes.

    `rows` are those it reads that are one row, repeated; `constant` is the second operand of SCALE.
    """

    operation: int
    reads: tuple[str, ...]
    makes: str
    rows: tuple[str, ...] = ()
    constant: Argument | None = None


def link(site: Site, reads: tuple[str, ...], makes: str) -> Link:
    """A node as a link, with the names of what it reads and makes."""
    operator, whole = site.operator, site.outputs[0].shape
    assert operator.pointwise is not None
    rows = tuple(name for name, kind in zip(reads, site.inputs, strict=True) if kind.shape != whole)
    constant = site.argument(operator.constant) if operator.constant else None
    return Link(operator.pointwise, reads, makes, rows, constant)


def sources(links: Sequence[Link]) -> tuple[str, ...]:
    """What a chain reads and doesn't make, each once. Each takes a register, the result one more."""
    made = {link.makes for link in links}
    return tuple(dict.fromkeys(name for link in links for name in link.reads if name not in made))


def arguments(shape: Sequence[Dim], links: Sequence[Link]) -> tuple[Argument, ...]:
    """What the kernel takes: rows (the first dimension) and elements of a row, then the instructions.

    They load each source into a register of its own, compute, and store the last result. Each result takes
    the last register over: a chain has no branches, so nothing older is read again.
    """
    registers: dict[str, int] = {}
    instructions: list[tuple[Argument, Argument, Argument, Argument]] = []
    repeated = {name for link in links for name in link.rows}
    for name in sources(links):
        registers[name] = len(registers)
        load = LOAD_ROW if name in repeated else LOAD
        instructions.append((load, registers[name], Address(name), 0))
    target = len(registers)
    for link in links:
        operands = [registers[name] for name in link.reads]
        right = operands[-1] if link.constant is None else link.constant
        instructions.append((link.operation, target, operands[0], right))
        registers[link.makes] = target
    instructions.append((STORE, 0, target, Address(links[-1].makes)))
    rows, size = shape[0] if shape else Dim.of(1), prod(shape[1:], start=Dim.of(1))
    words = (word for instruction in instructions for word in instruction)
    return rows, size, Scratch(), len(instructions), *words

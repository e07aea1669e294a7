"""Chains of elementwise operations, and copies between layouts, in the words of kernels/elementwise.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.kernels.sizes import AXES, GATHER, PLACE, REGISTERS, REPEAT, SCATTER, SPREAD
from assay.ops.operator import Address, Argument, Code, Scratch, Site
from assay.tensor.dtype import DType

Extent = int | Dim
KERNEL = "elementwise.chain"
SINGLES = REGISTERS // 2
"""Operands of one element that are loaded once for all blocks."""


@dataclass(frozen=True)
class View:
    """An array's elements in the order in which a chain takes them: for each dimension, the outermost first,
    its size and its stride in bytes. The first lies so many bytes behind the array's address.
    """

    axes: tuple[tuple[Extent, Extent], ...]
    first: Extent = 0


@dataclass(frozen=True)
class Operand:
    """What a chain reads or makes: a value by name, its element's bytes, and its view unless the elements
    lie as the chain takes them; or a number, as the word that a kernel finds.
    """

    name: str
    size: int
    view: View | None = None
    number: Argument | None = None

    @property
    def single(self) -> bool:
        """Whether all its elements are one."""
        return self.number is not None or (self.view is not None and all(s == 0 for _, s in self.view.axes))


@dataclass(frozen=True)
class Link:
    """One operation of a chain: the block function, what it reads and what it makes."""

    function: str
    reads: tuple[Operand, ...]
    makes: Operand


def function(stem: str, inputs: Sequence[DType], output: DType) -> str:
    """The name of an operation's block function (kernels/blocks.py). A cast_unsaturated overflows."""
    if stem.startswith("cast"):
        return f"blocks.cast_{inputs[0]}_{output}{stem.removeprefix('cast')}"
    return f"blocks.where_uint{8 * output.size}" if stem == "where" else f"blocks.{stem}_{inputs[0]}"


def view(size: int, shape: Sequence[Extent], strides: Sequence[Extent], first: Extent = 0) -> View | None:
    """The view with these strides in bytes; None for elements of `size` bytes without gaps in that order.

    Dimensions of 1 are left out, and neighbours that are one in memory are one. Raises ContractError for
    more than AXES that are left.
    """
    axes: list[tuple[Extent, Extent]] = []
    for extent, stride in zip(map(_plain, shape), map(_plain, strides), strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == _plain(extent * stride):
            extent = _plain(axes.pop()[0] * extent)
        axes.append((extent, stride))
    if len(axes) > AXES:
        got = f"{len(axes)} of the shape [{', '.join(map(str, shape))}]"
        raise ContractError("too many dimensions", want=f"at most {AXES} that can't be merged", got=got)
    if first == 0 and (not axes or (len(axes) == 1 and axes[0][1] == size)):
        return None
    return View(tuple(axes) or ((1, size),), first)


def strides(size: int, shape: Sequence[Extent]) -> tuple[Extent, ...]:
    """Those in bytes of an array without gaps, the last dimension innermost."""
    return tuple(prod(shape[axis + 1 :], start=size) for axis in range(len(shape)))


def broadcast(name: str, kind: ValueType, whole: Sequence[Dim]) -> Operand:
    """A value repeated along the dimensions of 1 or that it lacks, in the order of a result of that shape."""
    size, lacks = kind.dtype.size, len(whole) - len(kind.shape)
    dims = zip(kind.shape, whole[lacks:], strides(size, kind.shape), strict=True)
    kept = [0 if extent != wanted else stride for extent, wanted, stride in dims]
    return Operand(name, size, view(size, whole, [0] * lacks + kept))


def link(site: Site, reads: Sequence[str], makes: str) -> Link:
    """A node as a link, with the names of what it reads and makes."""
    operator = site.operator
    assert operator.pointwise is not None
    numbers = [site.argument(operator.constant)] if operator.constant else []
    operands = zip(reads, site.inputs, strict=True)
    return pointwise(operator.pointwise, tuple(operands), (makes, site.outputs[0]), numbers)


def rows(shape: Sequence[Dim]) -> tuple[Dim, Dim]:
    """The first dimension, which the kernel's threads divide, and the elements of a row."""
    return shape[0] if shape else Dim.of(1), prod(shape[1:], start=Dim.of(1))


def _plain(extent: Extent) -> Extent:
    """As an integer where it is one."""
    return extent if isinstance(extent, int) or extent.constant is None else extent.constant


def sources(links: Sequence[Link]) -> tuple[Operand, ...]:
    """What a chain reads of memory, each once. Each takes a register, and the result."""
    made = [link.makes.name for link in links]
    read = ((each, made[:index]) for index, link in enumerate(links) for each in link.reads)
    return tuple(dict.fromkeys(x for x, before in read if x.number is None and x.name not in before))


def arguments(rows: Extent, size: Extent, links: Sequence[Link]) -> tuple[Argument, ...]:
    """What the kernel takes for results of so many rows, which its threads divide, and elements of a row."""
    program = _Program()
    last = {operand: index for index, link in enumerate(links) for operand in link.reads}
    singles = sorted({each for each in last if each.single}, key=last.__getitem__)[:SINGLES]
    held: dict[Operand, int] = {each: program.loaded(each) for each in singles}
    program.begin()
    for index, link in enumerate(links):
        for operand in link.reads:
            if operand not in held:
                held[operand] = program.loaded(operand)
        made = link.makes
        here = index == len(links) - 1 and made.view is None
        held[made] = target = program.placed(made) if here else program.block()
        program.add(Code(link.function), target, *(held[operand] for operand in link.reads))
        done = [
            each
            for each in dict.fromkeys(link.reads)
            if each not in singles and (each.number is not None or last[each] == index)
        ]
        program.free += [register for each in done if (register := held.pop(each)) < REGISTERS]
    if made.view:
        program.add(SCATTER, target, Address(made.name), made.view, made.size)
    return program.words(rows, size)


def pointwise(
    stem: str,
    reads: Sequence[tuple[str, ValueType]],
    makes: tuple[str, ValueType],
    numbers: Sequence[Argument] = (),
) -> Link:
    """An operation as a link: values by name with their types, repeated where the result is larger, then
    numbers of the first one's dtype, each as the word that a kernel finds.
    """
    name, result = makes
    operands = [broadcast(name, kind, result.shape) for name, kind in reads]
    operands += [Operand("", reads[0][1].dtype.size, number=number) for number in numbers]
    called = function(stem, [kind.dtype for _, kind in reads], result.dtype)
    return Link(called, tuple(operands), Operand(name, result.dtype.size))


def _eights(operand: Operand) -> Operand:
    """An operand of 16 bytes as twice as many of 8."""
    seen = operand.view and View((*operand.view.axes, (2, 8)), operand.view.first)
    return Operand(operand.name, 8, seen)


def copied(source: Operand, target: Operand, count: Extent) -> tuple[Argument, ...]:
    """What the kernel takes to copy `count` elements from one view to another; any row is one element."""
    if source.size == 16:
        return copied(_eights(source), _eights(target), 2 * count)
    program = _Program()
    if source.view is None and target.view:
        program.add(SCATTER, program.placed(source), Address(target.name), target.view, target.size)
    else:
        block = program.block() if target.view else program.placed(target)
        program.add(
            GATHER, block, Address(source.name), source.view or View(((count, source.size),)), source.size
        )
        if target.view:
            program.add(SCATTER, block, Address(target.name), target.view, target.size)
    return program.words(count, 1)


class _Program:
    """Instructions in the making. `free` are the registers in scratch of which nothing is needed any more.
    Those before `begin` was called run once, the others for each block.
    """

    def __init__(self) -> None:
        self.free = list(range(REGISTERS))
        self._in_place = REGISTERS
        self._once = 0
        self._instructions: list[tuple[Argument | View, ...]] = []

    def add(self, code: Argument, target: int, *operands: Argument | View) -> None:
        self._instructions.append((code, target, *operands, 0, 0, 0)[:5])

    def begin(self) -> None:
        self._once = len(self._instructions)

    def block(self) -> int:
        """A register in scratch."""
        return self.free.pop(0)

    def placed(self, operand: Operand) -> int:
        """A register that lies in the value's memory."""
        self._in_place += 1
        self.add(PLACE, self._in_place - 1, Address(operand.name), operand.size)
        return self._in_place - 1

    def loaded(self, operand: Operand) -> int:
        """A register with what an operand says."""
        if operand.number is not None:
            self.add(SPREAD, block := self.block(), operand.number, operand.size)
        elif operand.view and operand.single:
            self.add(REPEAT, block := self.block(), Address(operand.name), operand.size, operand.view.first)
        elif operand.view:
            self.add(GATHER, block := self.block(), Address(operand.name), operand.view, operand.size)
        else:
            block = self.placed(operand)
        return block

    def words(self, rows: Extent, size: Extent) -> tuple[Argument, ...]:
        """All that the kernel takes; views follow the instructions."""
        begin = 8 * (7 + 5 * len(self._instructions))
        words: list[Argument] = []
        views: list[Argument] = []
        for word in (word for instruction in self._instructions for word in instruction):
            if isinstance(word, View):
                words.append(begin + 8 * len(views))
                views += (word.first, len(word.axes), *(each for axis in word.axes for each in axis))
            else:
                words.append(word)
        return rows, size, Scratch(), self._once, len(self._instructions), *words, *views

"""A plan: which kernels run, in which order, on which memory, for graphs with bounded symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.compiler.chain import chains, links
from assay.compiler.place import Interval, place
from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import Graph, Node
from assay.ops import chain
from assay.ops.operator import Address, Argument, Kernel, Scratch, Site
from assay.ops.resolution import Resolution, place_of, resolve


@dataclass(frozen=True)
class Value:
    """Kernel argument: where a value lies."""

    name: str


Word = Value | Scratch | Dim | int | float


@dataclass(frozen=True)
class Launch:
    """One entry of the tape: a kernel, its arguments, the nodes that it stands for, and whether a barrier
    comes before.
    """

    kernel: str
    arguments: tuple[Word, ...]
    nodes: tuple[int, ...]
    barrier: bool


@dataclass(frozen=True)
class Plan:
    """Launches and memory. `offsets` has the place of each value that lies in the arena, inputs and outputs
    too.

    `aliases` maps the names that states take on when they are changed in place to the states themselves.
    """

    graph: Graph
    bound: Mapping[str, int]
    launches: tuple[Launch, ...]
    offsets: Mapping[str, int]
    aliases: Mapping[str, str]
    arena: int
    scratch: int

    @property
    def kernels(self) -> tuple[str, ...]:
        """The kernels' names, each once."""
        return tuple(dict.fromkeys(launch.kernel for launch in self.launches))


@dataclass(frozen=True)
class _Step:
    """A launch before barriers are known. `rows` is the dimension that threads divide, for kernels that own
    rows.
    """

    kernel: str
    arguments: tuple[Word, ...]
    nodes: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    rows: Dim | None
    scratch: int


class Compiler:
    """Makes plans of one graph. Contracts are resolved once; each plan then has its own bounds."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._resolutions = [resolve(node, graph.types) for node in graph.nodes]
        self._chains = chains(graph, self._resolutions)
        self._aliases = _aliases(graph, self._resolutions)

    def plan(self, bound: Mapping[str, int], *, gap: int = 0) -> Plan:
        """A plan for runs whose symbols stay within `bound`. `gap` bytes are left free behind each value, for
        tests.
        """
        steps = [self._step(members, bound) for members in self._chains]
        barriers = _barriers(steps, self._aliases)
        offsets, arena = place(self._intervals(steps, barriers, bound), gap)
        launches = tuple(
            Launch(step.kernel, step.arguments, step.nodes, barrier)
            for step, barrier in zip(steps, barriers, strict=True)
        )
        scratch = max((step.scratch for step in steps), default=0)
        return Plan(self.graph, bound, launches, offsets, self._aliases, arena, -(-scratch // 64) * 64)

    def _step(self, members: Sequence[int], bound: Mapping[str, int]) -> _Step:
        if len(members) > 1:
            return self._chain(members, bound)
        index = members[0]
        node, resolution = self.graph.nodes[index], self._resolutions[index]
        site = _site(resolution, bound)
        kernel = choose(node, resolution.operator.kernels, site)
        names = resolution.operator.named(node)
        rows = _leading(resolution) if kernel.rows else None
        arguments = tuple(_word(argument, names) for argument in kernel.arguments(site))
        return _Step(kernel.name, arguments, (index,), node.inputs, node.outputs, rows, kernel.scratch(site))

    def _chain(self, members: Sequence[int], bound: Mapping[str, int]) -> _Step:
        """Several nodes by the kernel of the first, which is that of all."""
        node, resolution = self.graph.nodes[members[0]], self._resolutions[members[0]]
        site = _site(resolution, bound)
        kernel = choose(node, resolution.operator.kernels, site)
        made = links(self.graph, self._resolutions, members)
        reads, writes = chain.sources(made), (made[-1].makes,)
        names = {name: name for name in (*reads, *writes)}
        arguments = tuple(_word(argument, names) for argument in chain.arguments(site.outputs[0].shape, made))
        rows = _leading(resolution) if kernel.rows else None
        return _Step(kernel.name, arguments, tuple(members), reads, writes, rows, kernel.scratch(site))

    def _intervals(
        self, steps: Sequence[_Step], barriers: Sequence[bool], bound: Mapping[str, int]
    ) -> list[Interval]:
        """When each value of the arena lives, in phases: the stretches between barriers, inside which order
        is free.
        """
        graph = self.graph
        begin: dict[str, int] = dict.fromkeys(graph.inputs, -1)
        end: dict[str, int] = dict(begin)
        phase = 0
        for step, barrier in zip(steps, barriers, strict=True):
            phase += barrier
            for name in step.writes:
                if name not in self._aliases:
                    begin.setdefault(name, phase)
                    end[name] = phase
            for name in step.reads:
                if name in begin:
                    end[name] = phase
        last = phase + 1
        for name in (*graph.inputs, *graph.outputs):
            if name in begin:
                end[name] = last
        return [Interval(name, begin[name], end[name], graph.types[name].nbytes(bound)) for name in begin]


def choose(node: Node, kernels: Sequence[Kernel], site: Site) -> Kernel:
    """The first kernel that applies. Raises ContractError when none does."""
    for kernel in kernels:
        if kernel.applies(site):
            return kernel
    raise ContractError(
        "no kernel applies",
        place=place_of(node),
        want="; or ".join(kernel.when for kernel in kernels),
        got=", ".join(map(str, site.inputs)),
    )


def _site(resolution: Resolution, bound: Mapping[str, int]) -> Site:
    return Site(resolution.inputs, resolution.outputs, resolution.attributes, resolution.dims, bound)


def _leading(resolution: Resolution) -> Dim:
    """The first dimension of the rows that the kernel's threads divide: that of its first input."""
    shape = resolution.inputs[0].shape
    return shape[0] if shape else Dim.of(1)


def _word(argument: Argument, names: Mapping[str, str]) -> Word:
    if isinstance(argument, Address):
        return Value(names[argument.port])
    if isinstance(argument, Dim) and argument.constant is not None:
        return argument.constant
    return argument


def _aliases(graph: Graph, resolutions: Sequence[Resolution]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for node, resolution in zip(graph.nodes, resolutions, strict=True):
        names = resolution.operator.named(node)
        for output, state in resolution.operator.in_place.items():
            aliases[names[output]] = aliases.get(names[state], names[state])
    return aliases


def _barriers(steps: Sequence[_Step], aliases: Mapping[str, str]) -> list[bool]:
    """A step waits for all before it when it reads, or changes in place, what they write or read since the
    last barrier; except that steps whose threads own the same rows follow each other freely.
    """
    barriers = []
    written: dict[str, Dim | None] = {}
    read: dict[str, Dim | None] = {}

    def memory(name: str) -> str:
        return aliases.get(name, name)

    for step in steps:

        def clashes(
            found: Mapping[str, Dim | None], names: Sequence[str], rows: Dim | None = step.rows
        ) -> bool:
            return any(
                memory(name) in found and (rows is None or found[memory(name)] != rows) for name in names
            )

        changed = [name for name in step.writes if name in aliases]
        barrier = clashes(written, step.reads) or clashes(written, changed) or clashes(read, changed)
        if barrier:
            written, read = {}, {}
        for found, names in ((written, step.writes), (read, step.reads)):
            for name in map(memory, names):
                # None: by several kinds of rows, so that whoever comes next waits.
                found[name] = step.rows if found.get(name, step.rows) == step.rows else None
        barriers.append(barrier)
    return barriers

"""A plan: which kernels run, in which order, on which memory, for graphs with bounded symbols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.compiler.barriers import Touched, barriers, touch
from assay.compiler.chain import chains, links
from assay.compiler.place import Interval, place
from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import Graph, Node
from assay.ops import chain
from assay.ops.operator import Address, Argument, Kernel, Operator, Port, Scratch, Site
from assay.ops.pattern import parse
from assay.ops.resolution import Resolution, place_of, resolve


@dataclass(frozen=True)
class Value:
    """Kernel argument: where a value lies."""

    name: str


Word = Value | Scratch | Dim | int | float


@dataclass(frozen=True)
class Launch:
    """One entry of the tape: a kernel, its arguments, the nodes that it stands for, whether a barrier comes
    before, and the dimension that its threads divide, for kernels that own rows.
    """

    kernel: str
    arguments: tuple[Word, ...]
    nodes: tuple[int, ...]
    barrier: bool
    rows: Dim | None


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
    """A launch before barriers are known."""

    kernel: str
    arguments: tuple[Word, ...]
    nodes: tuple[int, ...]
    touched: Touched
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
        waits = barriers([step.touched for step in steps], self._aliases)
        offsets, arena = place(self._intervals(steps, waits, bound), gap)
        launches = tuple(
            Launch(step.kernel, step.arguments, step.nodes, barrier, step.rows)
            for step, barrier in zip(steps, waits, strict=True)
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
        arguments = tuple(_word(argument, names) for argument in kernel.arguments(site))
        rows = resolution.rows(kernel.rows) if kernel.rows else None
        touched = _touched(resolution.operator, names, kernel.rows, rows)
        return _Step(kernel.name, arguments, (index,), touched, rows, kernel.scratch(site))

    def _chain(self, members: Sequence[int], bound: Mapping[str, int]) -> _Step:
        """Several nodes by the kernel of the first, which is that of all."""
        node, resolution = self.graph.nodes[members[0]], self._resolutions[members[0]]
        site = _site(resolution, bound)
        kernel = choose(node, resolution.operator.kernels, site)
        made = links(self.graph, self._resolutions, members)
        reads, writes = chain.sources(made), (made[-1].makes,)
        names = {name: name for name in (*reads, *writes)}
        arguments = tuple(_word(argument, names) for argument in chain.arguments(site.outputs[0].shape, made))
        rows = resolution.rows(kernel.rows)
        touched = Touched(dict.fromkeys(reads, rows), dict.fromkeys(writes, rows))
        return _Step(kernel.name, arguments, tuple(members), touched, rows, kernel.scratch(site))

    def _intervals(
        self, steps: Sequence[_Step], waits: Sequence[bool], bound: Mapping[str, int]
    ) -> list[Interval]:
        """When each value of the arena lives, in phases: the stretches between barriers, inside which order
        is free.
        """
        graph = self.graph
        begin: dict[str, int] = dict.fromkeys(graph.inputs, -1)
        end: dict[str, int] = dict(begin)
        phase = 0
        for step, barrier in zip(steps, waits, strict=True):
            phase += barrier
            for name in step.touched.writes:
                if name not in self._aliases:
                    begin.setdefault(name, phase)
                    end[name] = phase
            for name in step.touched.reads:
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


def _touched(operator: Operator, names: Mapping[str, str], first: str, rows: Dim | None) -> Touched:
    """What a kernel reads and writes: by its rows where a value begins with their name, `first`."""

    def divided(ports: Sequence[Port]) -> dict[str, Dim | None]:
        found: dict[str, Dim | None] = {}
        for port in ports:
            if port.name in names:
                touch(found, names[port.name], rows if parse(port.dims).first == first else None)
        return found

    return Touched(divided(operator.inputs), divided(operator.outputs))


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

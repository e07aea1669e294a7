"""A plan: which kernels run, in which order, on which memory, for graphs with bounded symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.compiler.barriers import Touched, barriers, touch
from assay.compiler.chain import chains, links
from assay.compiler.place import Interval, place
from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import Graph, Node
from assay.ops import chain
from assay.ops.operator import Address, Argument, Code, Kernel, Operator, Port, Site
from assay.ops.pattern import parse
from assay.ops.resolution import place_of, resolve


@dataclass(frozen=True)
class Launch:
    """One entry of the tape: a kernel, its arguments, the nodes that it stands for, the dimension that its
    threads divide, for kernels that own rows, what it touches, each thread's bytes of scratch, and whether
    a barrier comes before.
    """

    kernel: str
    arguments: tuple[Argument, ...]
    nodes: tuple[int, ...]
    rows: Dim | None
    touched: Touched
    scratch: int
    barrier: bool = False


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
        """The names of the kernels and of those that they call, each once."""
        words = (word for launch in self.launches for word in launch.arguments)
        called = [word.kernel for word in words if isinstance(word, Code)]
        return tuple(dict.fromkeys([*(launch.kernel for launch in self.launches), *called]))


class Compiler:
    """Makes plans of one graph. Contracts are resolved once; each plan then has its own bounds."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._sites = [resolve(node, graph.types) for node in graph.nodes]
        self._chains = chains(graph, self._sites)
        self._aliases = _aliases(graph, self._sites)

    def plan(self, bound: Mapping[str, int], *, gap: int = 0) -> Plan:
        """A plan for runs whose symbols stay within `bound`. `gap` bytes are left free behind each value, for
        tests.
        """
        steps = [self._step(members, bound) for members in self._chains]
        ends, types = (*self.graph.inputs, *self.graph.outputs), self.graph.types

        def nbytes(name: str) -> int:
            return types[name].nbytes(bound)

        return laid_out(self.graph, bound, steps, self._aliases, nbytes, self._aliases, ends, gap)

    def _step(self, members: Sequence[int], bound: Mapping[str, int]) -> Launch:
        """A launch before barriers are known. Several nodes run by the kernel of the first, which is that of
        all.
        """
        node, site = self.graph.nodes[members[0]], replace(self._sites[members[0]], bound=bound)
        kernel = choose(node, site)
        rows = site.rows(kernel.rows) if kernel.rows else None
        if len(members) > 1:
            made = links(self.graph, self._sites, members)
            reads: dict[str, Dim | None] = {}
            for each in chain.sources(made):
                touch(reads, each.name, None if each.view else rows)
            touched = Touched(reads, {made[-1].makes.name: rows})
            names = {name: name for name in (*touched.reads, *touched.writes)}
            arguments: Sequence[Argument] = chain.arguments(*chain.rows(site.outputs[0].shape), made)
        else:
            names = site.operator.named(node)
            arguments = kernel.takes(site)
            touched = _touched(site.operator, names, kernel.rows, rows)
        words = tuple(_word(argument, names) for argument in arguments)
        return Launch(kernel.name, words, tuple(members), rows, touched, kernel.scratch_bytes(site))


def laid_out(
    graph: Graph,
    bound: Mapping[str, int],
    steps: Sequence[Launch],
    aliases: Mapping[str, str],
    nbytes: Callable[[str], int],
    away: Collection[str],
    wanted: Collection[str],
    gap: int = 0,
    share: bool = True,
) -> Plan:
    """The plan of launches without barriers. Values `away` lie outside the arena, those `wanted` live to the
    end. Values live for phases: the stretches between barriers, inside which order is free. Without `share`
    each has memory of its own.
    """
    waits = barriers([step.touched for step in steps], aliases)
    launches = tuple(replace(step, barrier=wait) for step, wait in zip(steps, waits, strict=True))
    begin: dict[str, int] = dict.fromkeys(graph.inputs, -1)
    end: dict[str, int] = dict(begin)
    phase = 0
    for launch in launches:
        phase += launch.barrier
        for name in launch.touched.writes:
            begin.setdefault(name, phase)
        end |= dict.fromkeys((*launch.touched.reads, *launch.touched.writes), phase)
    end |= dict.fromkeys(wanted, phase + 1)
    lives = [(n, begin[n], end[n]) if share else (n, -1, phase + 1) for n in begin if n not in away]
    offsets, arena = place([Interval(*each, nbytes(each[0])) for each in lives], gap)
    scratch = max((launch.scratch for launch in launches), default=0)
    return Plan(graph, bound, launches, offsets, aliases, arena, -(-scratch // 64) * 64)


def choose(node: Node, site: Site) -> Kernel:
    """The first kernel that applies. Raises ContractError when none does."""
    for kernel in site.operator.kernels:
        if kernel.applies(site):
            return kernel
    want = "; or ".join(kernel.when for kernel in site.operator.kernels)
    got = ", ".join(map(str, site.inputs))
    raise ContractError("no kernel applies", place=place_of(node), want=want, got=got)


def _touched(operator: Operator, names: Mapping[str, str], first: str, rows: Dim | None) -> Touched:
    """What a kernel reads and writes: by its rows where a value begins with their name, `first`."""

    def divided(ports: Sequence[Port]) -> dict[str, Dim | None]:
        found: dict[str, Dim | None] = {}
        for port in ports:
            touch(found, names[port.name], rows if parse(port.dims).first == first else None)
        return found

    return Touched(divided(operator.inputs), divided(operator.outputs))


def _word(argument: Argument, names: Mapping[str, str]) -> Argument:
    if isinstance(argument, Address):
        return Address(names[argument.name])
    if isinstance(argument, Dim) and argument.constant is not None:
        return argument.constant
    return argument


def _aliases(graph: Graph, sites: Sequence[Site]) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for node, site in zip(graph.nodes, sites, strict=True):
        names = site.operator.named(node)
        for output, state in site.operator.in_place.items():
            aliases[names[output]] = aliases.get(names[state], names[state])
    return aliases

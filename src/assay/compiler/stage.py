"""One stage of an ONNX graph at given sizes: what runs as one tape, what the host does after it, and what is
left, which waits for sizes that only data decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from assay.compiler.barriers import Touched
from assay.compiler.plan import Launch, Plan, laid_out
from assay.errors import HardwareFault
from assay.graph.graph import Graph, ValueType
from assay.kernels.sizes import REGISTERS
from assay.ops import chain
from assay.ops.operator import Code
from assay.ops.resolution import place_of
from assay.ops.standard.emit import Call, Emitter
from assay.ops.standard.infer import Inference
from assay.ops.standard.schema import newest, split_name
from assay.ops.standard.site import Array, Site
from assay.tensor.dtype import C64, C128, F6E2M3, F6E3M2, F8E8M0, MAP, OPTIONAL, SEQUENCE, STRING

PASSES = ("fold", "dead", "fuse", "share")
"""What may be switched off: values known ahead aren't computed; nor what nobody reads; elementwise
neighbours become one kernel; values that don't live at the same time share memory.
"""
NO_BLOCKS = (C64, C128, F8E8M0, F6E2M3, F6E3M2)
"""Types that no block function knows."""
LONGEST = 16
"""Operations of a chain."""


@dataclass(frozen=True)
class Stage:
    """`calls` run as one tape, after those of `setup`, which make constants and run once. Then each of
    `hosts` runs, and `rest` on what there is then. `constants` are known values that are read, `aliases`
    values that are another one's memory, `types` all values' types.
    """

    calls: tuple[Call, ...]
    setup: tuple[Call, ...]
    temporaries: Mapping[str, int]
    hosts: tuple[Site, ...]
    rest: Graph | None
    constants: Mapping[str, Array]
    aliases: Mapping[str, str]
    types: Mapping[str, ValueType]
    launched: tuple[tuple[Site, ...], ...] = ()
    """The nodes of each call."""
    kept: tuple[str, ...] = ()
    """The values that are wanted of the calls: outputs, and what hosts and the rest read."""

    def base(self, name: str) -> str:
        """The value whose memory a value is."""
        while name in self.aliases:
            name = self.aliases[name]
        return name


def stage(
    inference: Inference, outputs: Sequence[str], off: Set[str] = frozenset(), memory: int = 1 << 62
) -> Stage:
    """The first stage of a graph whose inputs' sizes are known. Raises HardwareFault for a value of more
    bytes than `memory`.
    """
    return _Stager(inference, outputs, off).stage(memory)


class _Stager:
    def __init__(self, inference: Inference, outputs: Sequence[str], off: Set[str]) -> None:
        self.inference = inference
        self.outputs = tuple(inference.names.get(name, name) for name in outputs)
        self.off = off
        self.types = {name: kind for name, kind in inference.types.items() if kind}
        self.known = {} if "fold" in off else {
            name: value for name, value in inference.values.items()
            if value.dtype != object or self.types[name].dtype is STRING  # else sizes that are open still
        }  # fmt: skip
        self.known |= inference.constants

    def stage(self, memory: int) -> Stage:
        live = self._live()
        for site in live:
            _refuse_oversized(site, memory)
        native, hosts, rest = self._parted(live)
        wanted = self._wanted(hosts, rest)
        aliases = {site.node.outputs[0]: site.node.inputs[0] for site in native if site.definition.view}
        calls, launched, temporaries = self._calls(
            [s for s in native if not s.definition.view], aliases, wanted
        )
        setup = tuple(call for call in calls if call.once)
        read = _held({name for call in calls for name in call.reads} | set(wanted), aliases)
        constants = {name: self.known[name] for name in sorted(read) if name in self.known}
        pairs = [pair for pair in zip(calls, launched, strict=True) if not pair[0].once]
        return Stage(
            tuple(call for call, _ in pairs),
            setup,
            temporaries,
            tuple(hosts),
            self._rest(rest, hosts) if rest else None,
            constants,
            aliases,
            self.types,
            tuple(sites for _, sites in pairs),
            tuple(wanted),
        )

    def _live(self) -> list[Site]:
        """The nodes whose outputs somebody needs and nobody knows."""
        needed = set(self.outputs)
        live: list[Site] = []
        for site in reversed(self.inference.sites):
            made = [name for name in site.node.outputs if name]
            known = all(name in self.known for name in made)
            if (needed.intersection(made) or "dead" in self.off) and not known:
                live.append(site)
                needed.update(site.node.reads)
        return live[::-1]

    def _parted(self, live: Sequence[Site]) -> tuple[list[Site], list[Site], list[Site]]:
        """Nodes that run as kernels, nodes that the host runs after them, and those behind these."""
        native, hosts, rest = list[Site](), list[Site](), list[Site]()
        late: set[str] = set()
        for site in live:
            if late.intersection(site.node.reads):
                rest.append(site)
            elif runs_natively(site):
                native.append(site)
                continue
            else:
                hosts.append(site)
            late.update(site.node.outputs)
        return native, hosts, rest

    def _wanted(self, hosts: Sequence[Site], rest: Sequence[Site]) -> list[str]:
        made = {name for site in (*hosts, *rest) for name in site.node.outputs}
        read = [name for site in (*hosts, *rest) for name in site.node.reads]
        return [name for name in dict.fromkeys((*self.outputs, *read)) if name and name not in made]

    def _rest(self, rest: Sequence[Site], hosts: Sequence[Site]) -> Graph:
        """What is left as a graph, whose inputs are the values that there will be."""
        made = {name for site in rest for name in site.node.outputs}
        read = dict.fromkeys(name for site in rest for name in site.node.reads)
        read |= dict.fromkeys(self.outputs)
        constants = self.known.keys() | set(self.inference.graph.weights)
        inputs = tuple(name for name in read if name not in made and name not in constants)
        weights = tuple(name for name in read if name in constants)
        types = {name: self.types[name] for name in (*inputs, *weights) if name in self.types}
        nodes = tuple(site.node for site in rest)
        domains = dict.fromkeys(split_name(node.op)[0] for node in nodes)
        opsets = {**self.inference.opsets, **{domain: newest(domain) for domain in domains if newest(domain)}}
        return Graph(self.inference.graph.name, inputs, weights, (), nodes, self.outputs, types, opsets)

    def _calls(
        self, sites: Sequence[Site], aliases: Mapping[str, str], wanted: Sequence[str]
    ) -> tuple[list[Call], list[tuple[Site, ...]], dict[str, int]]:
        constants = set(self.known) | set(self.inference.graph.weights)
        calls: list[Call] = []
        launched: list[tuple[Site, ...]] = []
        temporaries: dict[str, int] = {}
        uses: dict[str, int] = dict.fromkeys(wanted, 2)
        kept = _held(set(wanted), aliases)
        for site in self.inference.sites:
            for name in site.node.reads:
                uses[name] = uses.get(name, 0) + 1
        for group in self._groups(sites, uses):
            for output, source in aliases.items():
                if source in constants:
                    constants.add(output)
            if group[0].definition.pointwise:
                own = [_chain(group, constants, kept)]
            else:
                emitter = Emitter(group[0], constants)
                assert group[0].definition.lower
                group[0].definition.lower(group[0], emitter)
                emitter.finish()
                for name, kind in zip(group[0].node.outputs, group[0].outputs, strict=True):
                    if name in kept and kind and kind.dtype.kind == "float":
                        emitter.chain(kind.sizes or (), canonical(name, name, kind))
                own = emitter.calls
                temporaries |= emitter.temporaries
                constants |= emitter.tables.keys()
                self.known |= emitter.tables
            # What is the caller's, or is only partly made of constants, is made in each run.
            changing = kept.union(*(call.writes for call in own if not call.once))
            for call in own:
                if call.once and changing.intersection(call.writes):
                    call = replace(call, once=False)
                if call.once:
                    constants.update(call.writes)
                calls.append(call)
                launched.append(tuple(group))
        return calls, launched, temporaries

    def _groups(self, sites: Sequence[Site], uses: Mapping[str, int]) -> list[list[Site]]:
        """Nodes in order, elementwise neighbours that become one kernel together."""
        groups: list[list[Site]] = []
        left = list(sites)
        while left:
            count = 1 if "fuse" in self.off else _chained(left[:LONGEST], uses)
            groups.append(left[:count])
            del left[:count]
        return groups


def _refuse_oversized(site: Site, memory: int) -> None:
    for kind in filter(None, site.outputs):
        if kind.sizes is not None and kind.dtype.kind != "container" and kind.nbytes({}) > memory:
            want, got = f"values of at most {memory:,} bytes", f"{kind.nbytes({}):,} bytes: {kind}"
            hint = "the model's sizes, or those of its inputs, are beyond this machine"
            rule, place = "a value that memory can't hold", place_of(site.node)
            raise HardwareFault(rule, place=place, want=want, got=got, hint=hint)


def runs_natively(site: Site) -> bool:
    """Whether kernels make the outputs: there are some for it, and all sizes are known."""
    if not site.definition.native or not site.definition.natively(site):
        return False
    kinds = [kind for kind in (*site.types, *site.outputs) if kind]
    whole = len(site.outputs) == len(site.node.outputs) and None not in site.outputs
    strange = (STRING, SEQUENCE, OPTIONAL, MAP, *(NO_BLOCKS if site.definition.pointwise else ()))
    return whole and all(kind.sizes is not None and kind.dtype not in strange for kind in kinds)


def _held(names: Set[str], aliases: Mapping[str, str]) -> set[str]:
    """Values, and those whose memory they are."""
    found = set(names)
    while more := {aliases[name] for name in found if name in aliases} - found:
        found |= more
    return found


def _chained(sites: Sequence[Site], uses: Mapping[str, int]) -> int:
    """How many of these nodes become one chain: each reads one before it, and only they read its results but
    the last one's.
    """
    found, read, made = 1, Counter[str](), list[str]()
    for count, site in enumerate(sites, 1):
        read.update(site.node.reads)
        fits = site.definition.pointwise and site.out() == sites[0].out()
        if not fits or (made and set(made).isdisjoint(site.node.inputs)):
            break
        if len(chain.sources(_links(sites[:count]))) >= REGISTERS // 2 - 2:
            break
        if all(read[name] == uses.get(name, 0) for name in made):
            found = count
        made.append(site.node.outputs[0])
    return found


def _chain(group: Sequence[Site], constants: Set[str], kept: Set[str]) -> Call:
    emitter, links = Emitter(group[-1], constants), _links(group)
    made, kind = links[-1].makes, group[-1].outputs[0]
    if made.name in kept and kind and kind.dtype.kind == "float":
        raw = f"{made.name}~raw"
        links[-1] = replace(links[-1], makes=replace(made, name=raw))
        links.append(canonical(raw, made.name, kind))
    emitter.chain(group[0].out(), *links)
    return emitter.calls[0]


def canonical(name: str, to: str, kind: ValueType) -> chain.Link:
    """What makes all NaN of a value that callers see the same: processors make different ones."""
    return chain.pointwise("canonical", [(name, kind)], (to, kind))


def _links(group: Sequence[Site]) -> list[chain.Link]:
    ways = ((site, site.definition.pointwise) for site in group)
    return [link for site, way in ways if way for link in way(site)]


def plan(found: Stage, graph: Graph, own: Set[str], gap: int = 0, share: bool = True) -> Plan:
    """Launches and memory of a stage. `own` are values that lie outside the arena."""
    steps = []
    for call in found.calls:
        reads, writes = (dict.fromkeys(map(found.base, names)) for names in (call.reads, call.writes))
        touched = Touched(reads, writes)
        steps.append(Launch(call.kernel, call.arguments, (), None, touched, call.scratch))
    away, wanted = {*own, *graph.inputs}, [*map(found.base, found.kept)]
    return laid_out(graph, {}, steps, {}, partial(nbytes_of, found), away, wanted, gap, share)


def empty(found: Stage) -> set[str]:
    """Values of no elements: nobody writes them, and kernels that read them take any address."""
    names = {found.base(name) for call in (*found.setup, *found.calls) for name in call.reads}
    known = found.types.keys() | found.temporaries.keys()
    return {name for name in names & known if nbytes_of(found, name) == 0}


def nbytes_of(found: Stage, name: str) -> int:
    """Bytes of a value or a temporary."""
    return found.temporaries[name] if name in found.temporaries else found.types[name].nbytes({})


def kernels(calls: Sequence[Call]) -> list[str]:
    """The kernels that calls need, block functions too."""
    codes = (word.kernel for call in calls for word in call.arguments if isinstance(word, Code))
    return list(dict.fromkeys([*(call.kernel for call in calls), *codes]))

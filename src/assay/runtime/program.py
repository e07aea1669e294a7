"""An ONNX graph that runs: a plan for each binding of its inputs, made when it is first met."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import prod
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from assay.compiler.expand import function_of
from assay.compiler.plan import Plan
from assay.compiler.stage import Stage, empty, kernels, nbytes_of, plan, stage
from assay.errors import ContractError, HardwareFault
from assay.graph.dim import Dim
from assay.graph.graph import Graph
from assay.kernels.cache import Progress, addresses
from assay.ops.operator import Address
from assay.ops.resolution import line_of
from assay.ops.standard.emit import Call
from assay.ops.standard.infer import Inference
from assay.ops.standard.site import Site
from assay.runtime.cpu import Cpu
from assay.runtime.host import Value, finite, run_node, type_of
from assay.runtime.inputs import apart
from assay.runtime.profile import Spent, timed
from assay.runtime.tape import Tape
from assay.tensor.buffer import Buffer
from assay.tensor.narrow import canonical, dtype_of, inside, numpy_of, outside

Array = NDArray[np.generic]
Places = dict[str, int | Dim]
PLANS = 64
"""Bindings whose plans are kept; the one that wasn't used for longest goes."""
LITTLE = 4 << 20
"""Bytes that all calls read and write, below which one thread runs them: several would wait for each other
for longer than they work.
"""
KEYED = 4096
"""Elements of the largest input for each of whose values a plan may be made."""


class Store:
    """Constants in a device's memory, each once: those of all plans of a model, as long as one holds them."""

    def __init__(self, device: Cpu) -> None:
        self.device = device
        self._buffers: WeakValueDictionary[str, Buffer] = WeakValueDictionary()

    def put(self, key: str, array: Array) -> Buffer:
        """A constant, an array of any layout."""
        buffer, new = self.reserve(key, array.nbytes)
        if new and array.nbytes:
            raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            self.device.copy_in(buffer, raw)
        return buffer

    def reserve(self, key: str, nbytes: int) -> tuple[Buffer, bool]:
        """Memory for a constant, and whether its contents are still to be made."""
        found = self._buffers.get(key)
        if found is not None:
            return found, False
        found = self._buffers[key] = self.device.allocate(max(nbytes, 64), owner=key)
        return found, True


class Program:
    """A graph and its plans, by binding: the sizes of its inputs, and values of those that sizes depend on.

    `weights` are the graph's, as callers know them. With `trusted`, nodes are in their newest meaning and
    were held against their contracts before. `off` names passes that are left out. `admit` is asked about
    inputs unlike all before, and raises for those that aren't to be run. With `own`, outputs have memory of
    their own. Not thread-safe: one run at a time.
    """

    def __init__(
        self,
        graph: Graph,
        store: Store,
        weights: Mapping[str, Array],
        *,
        trusted: bool = False,
        off: Set[str] = frozenset(),
        progress: Progress | None = None,
        admit: Callable[[Mapping[str, Value]], None] = lambda inputs: None,
        own: bool = False,
    ) -> None:
        self.graph = graph
        self.store = store
        self.weights = weights
        self.trusted = trusted
        self.off = off
        self.progress = progress
        self.admit = admit
        self._names, self._own = dict.fromkeys(graph.inputs).keys(), own
        self.keyed: set[str] = set()
        """Inputs whose values are part of the binding."""
        self._ready: OrderedDict[object, Ready] = OrderedDict()
        self._arena: Buffer | None = None

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs, by name. Raises ContractError for inputs that the graph's contracts refuse."""
        ready = self.prepare(inputs)
        values = ready.run(inputs)
        for site, bodies in ready.hosts:
            given = [values[name] if name else None for name in site.node.inputs]
            run = {key: body.runner(values) for key, body in bodies.items()}
            made = run_node(site, given, run)
            self.store.device.flagged |= not all(map(finite, made))
            values |= {name: value for name, value in zip(site.node.outputs, made, strict=False) if name}
        if ready.rest:
            values |= ready.rest.run({name: values[name] for name in ready.rest.graph.inputs})
        found = {name: values[own] for name, own in zip(self.graph.outputs, ready.outputs, strict=True)}
        return apart(found, inputs) if self._own and not ready.apart else found

    def profile(
        self, inputs: Mapping[str, Value], repeats: int
    ) -> list[tuple[Spent[tuple[str, str]], int, int]]:
        """The calls of the first tape that runs these inputs, by operators and kernel; with each kind its
        multiplications and additions in products, and the bytes that it reads and writes.
        """
        ready = self.prepare(inputs)
        if ready.tape is None:
            return []
        values = ready.run(inputs)
        kinds = [
            ("+".join(dict.fromkeys(site.node.op for site in sites)), call.kernel)
            for call, sites in zip(ready.stage.calls, ready.stage.launched, strict=True)
        ]
        found = timed(ready.tape, kinds, self.store.device.team, repeats)
        del values  # the tape wrote into them
        work = dict.fromkeys(kinds, (0, 0))
        counted = set[int]()
        for kind, call, sites in zip(kinds, ready.stage.calls, ready.stage.launched, strict=True):
            new = sum(operations(site) for site in sites if id(site) not in counted)
            counted.update(map(id, sites))
            done, moved = work[kind]
            work[kind] = done + new, moved + touched(ready.stage, [call])
        return [(each, *work[each.kind]) for each in found]

    def prepare(self, inputs: Mapping[str, Value]) -> Ready:
        """What runs inputs like these: a plan that is ready, or one that is made now."""
        plain = isinstance(inputs, Mapping) and inputs.keys() == self._names
        plain = plain and all(map(_plain, inputs.values()))
        if not plain:
            self.admit(inputs)
        key = self._key(inputs)
        ready = self._ready.get(key)
        if ready is None:
            if plain:
                self.admit(inputs)
            ready = self._make(inputs)
            key = self._key(inputs)
            self._ready[key] = ready
        elif ready.arena is not self._arena:
            ready.place(self._arena_of(ready.nbytes))
        self._ready.move_to_end(key)
        while len(self._ready) > PLANS:
            self._ready.popitem(last=False)
        return ready

    def stages(self) -> Iterator[Ready]:
        """The plan that was used last, and those of what waited for data to decide sizes."""
        for ready in [*self._ready.values()][-1:]:
            yield ready
            if ready.rest:
                yield from ready.rest.stages()

    def _key(self, inputs: Mapping[str, Value]) -> object:
        parts: list[object] = []
        for name in self.graph.inputs:
            value = inputs[name]
            if isinstance(value, np.ndarray):
                parts += (value.dtype, value.shape)
                if name in self.keyed:
                    parts.append(value.tobytes() if value.dtype != object else tuple(value.flat))
            else:
                parts.append(type_of(value, self.graph.types.get(name)))
        return tuple(parts)

    def _make(self, inputs: Mapping[str, Value]) -> Ready:
        inference = self._infer(inputs)
        while more := {name for name in _wanted(inference) if _small(inputs.get(name))} - self.keyed:
            self.keyed |= more
            self._ready.clear()
            inference = self._infer(inputs)
        if inference.errors:
            raise ContractError.together(list(inference.errors))
        ready = Ready(
            self, stage(inference, self.graph.outputs, self.off, self.store.device.pool.capacity), inference
        )
        ready.place(self._arena_of(ready.nbytes))
        return ready

    def _infer(self, inputs: Mapping[str, Value]) -> Inference:
        types = {name: type_of(value, self.graph.types.get(name)) for name, value in inputs.items()}
        values = {name: array for name, array in self.weights.items() if _small(array)}
        values |= {name: np.asarray(inputs[name]).copy() for name in self.keyed}
        return Inference(self.graph, types, values, trusted=self.trusted, expand=function_of).run()

    def _arena_of(self, nbytes: int) -> Buffer:
        """Memory for one plan at a time: one that is too small is replaced."""
        if self._arena is None or self._arena.nbytes < nbytes:
            self._arena = None
            self._arena = self.store.device.allocate(max(nbytes, 64), owner=f"{self.graph.name} arena")
        return self._arena


class Ready:
    """A stage with its constants in place, bound to an arena by `place`."""

    def __init__(self, program: Program, found: Stage, inference: Inference) -> None:
        self.stage = found
        self.arena: Buffer | None = None
        self.outputs = [inference.names.get(name, name) for name in program.graph.outputs]
        folded = {name: constant(array) for name, array in found.constants.items()}
        self.constants = {**program.weights, **folded}
        self._held: list[Buffer] = []
        self.hosts = [(site, self._bodies(site, program)) for site in found.hosts]
        self.rest = None
        if found.rest:
            weights = {name: self.constants[name] for name in found.rest.weights}
            self.rest = Program(
                found.rest, program.store, weights, trusted=True, off=program.off, progress=program.progress
            )
        self._device = program.store.device
        given = {*program.graph.inputs, *self.constants}
        self.fresh = [name for name in dict.fromkeys(map(found.base, found.kept)) if name not in given]
        """Wanted values that calls make: they are written into arrays of the caller's."""
        separate = len({*map(found.base, self.outputs)} & {*self.fresh}) == len(self.outputs)
        self.apart = separate and not found.hosts and not found.rest
        self.plan = plan(found, program.graph, set(self.fresh), share="share" not in program.off)
        self.nbytes = self.plan.arena + self.plan.scratch * self._device.team.nthreads
        self._refuse_oversized(program.graph.name)
        self._kernels = addresses(
            [*self.plan.kernels, *kernels(found.calls), *kernels(found.setup)],
            program.progress if found.calls else None,
        )
        kinds = found.types
        self._fresh = [(name, self._sizes(name), kinds[name].dtype.numpy) for name in self.fresh]
        self._kept = [(name, found.base(name), kinds[name]) for name in found.kept]
        self._slots: list[tuple[str, NDArray[np.int64]]] = []
        self._places: Places = {name: _later(name) for name in (*program.graph.inputs, *self.fresh)}
        self._places |= self._settle(found, program)
        self.tape: Tape | None = None
        self._alone = touched(found, found.calls) < LITTLE

    def _refuse_oversized(self, name: str) -> None:
        """Raise HardwareFault, before anything is allocated, for a plan that can't be held."""
        most = self._device.pool.capacity
        outputs = sum(nbytes_of(self.stage, name) for name in self.fresh)
        if self.nbytes + outputs > most:
            want, got = (
                f"at most {most:,} bytes",
                f"{self.nbytes:,} for values between, {outputs:,} for outputs",
            )
            hint = "the model's sizes, or those of its inputs, are beyond this machine"
            raise HardwareFault("a plan that memory can't hold", place=name, want=want, got=got, hint=hint)
        for site, _ in self.hosts:
            site.memory = most

    def place(self, arena: Buffer) -> None:
        """Take an arena on."""
        self.arena = arena
        places = self._places | {n: arena.address + offset for n, offset in self.plan.offsets.items()}
        self.tape = self._tape(self.plan, places, arena.address) if self.stage.calls else None
        self._slots = self.tape.slots() if self.tape else []

    def run(self, inputs: Mapping[str, Value]) -> dict[str, Value]:
        """Run the tape: the wanted values, of inputs, constants and calls."""
        made: dict[str, Array] = {name: np.empty(sizes, dtype) for name, sizes, dtype in self._fresh}
        if self.tape:
            words = self.tape.arguments
            for name, positions in self._slots:
                array = made[name] if name in made else inputs[name]
                words[positions] = array.__array_interface__["data"][0]  # type: ignore[attr-defined]
            self._device.launch(self.tape, self._alone)
            fault = self.tape.faulty()
            if fault:
                raise self._fault(*fault)
        values: dict[str, Value] = {}
        for name, base, kind in self._kept:
            value: Value = made.get(base)
            if value is None:
                value = inputs[base] if base in inputs else self.constants[base]
            if isinstance(value, np.ndarray) and not kind.element:
                value = value if value.dtype == numpy_of(kind.dtype) else outside(value, kind.dtype)
                value = value if kind.sizes in (None, value.shape) else value.reshape(kind.sizes)
            values[name] = value
        return values

    def _sizes(self, name: str) -> tuple[int, ...]:
        sizes = self.stage.types[name].sizes
        assert sizes is not None
        return sizes

    def _tape(self, made: Plan, places: Places, arena: int) -> Tape:
        found = self.stage
        places = places | {
            name: places[found.base(name)] for name in found.aliases if found.base(name) in places
        }
        return Tape.of(made, self._kernels, places, arena + made.arena)  # type: ignore[arg-type]

    def _settle(self, found: Stage, program: Program) -> Places:
        """Put all constants in place; those that calls make are made now, unless they are there."""
        store, keys, places = program.store, dict[str, str](), Places(dict.fromkeys(empty(found), 0))
        read = {found.base(name) for call in (*found.setup, *found.calls) for name in call.reads}
        for name in sorted(read & self.constants.keys()):
            array = self.constants[name]
            dtype = dtype_of(array.dtype)
            assert dtype
            if (
                array.nbytes > 1 << 16
            ):  # where it lies tells it as long as it is held, by whoever holds its copy
                keys[name] = f"{name} {array.ctypes.data} {array.dtype} {array.shape}"
            else:
                keys[name] = f"{name} {hashlib.sha256(array.tobytes()).hexdigest()}"
            self._held.append(store.put(keys[name], inside(np.ascontiguousarray(array), dtype)))
            places[name] = self._held[-1].address
        for call in found.setup:
            words = [
                keys.get(found.base(w.name), w.name) if isinstance(w, Address) else w for w in call.arguments
            ]
            digest = hashlib.sha256(repr((call.kernel, words)).encode()).hexdigest()
            for name in map(found.base, call.writes):
                keys[name] = f"{name} {hashlib.sha256((keys.get(name, '') + digest).encode()).hexdigest()}"
        made = {found.base(name): nbytes_of(found, name) for call in found.setup for name in call.writes}
        new = False
        for name, nbytes in made.items():
            buffer, fresh = store.reserve(keys[name], nbytes)
            self._held.append(buffer)
            places[name], new = buffer.address, new or fresh
        if new:
            once = plan(replace(found, calls=found.setup, kept=()), program.graph, set(made))
            scratch = self._device.allocate(
                max(once.scratch * self._device.team.nthreads, 64), owner="constants"
            )
            self._device.launch(self._tape(once, places, scratch.address - once.arena))
        return places

    def _bodies(self, site: Site, program: Program) -> dict[str, Body]:
        return {key: Body(body, program, self.constants) for key, body in site.node.bodies}

    def _fault(self, number: int, row: int) -> ContractError:
        site = self.stage.launched[number][-1]
        place = line_of(site.node)
        want, got = "indices inside the axis", f"one outside, in row {row}"
        return ContractError("an index out of range", place=place, want=want, got=got)


class Body:
    """A graph in a node's attribute: its inputs and what it reads of the graphs around it."""

    def __init__(self, body: Graph, program: Program, constants: Mapping[str, Array]) -> None:
        fixed = tuple(name for name in body.captures if name in constants)
        self.own = body.inputs
        self.captured = tuple(name for name in body.captures if name not in constants)
        types = {**body.types, **{name: type_of(constants[name]) for name in fixed}}
        graph = replace(body, inputs=(*body.inputs, *self.captured), weights=fixed, types=types)
        self.program = Program(
            graph,
            program.store,
            {name: constants[name] for name in fixed},
            off=program.off,
            progress=program.progress,
        )

    def runner(self, around: Mapping[str, Value]) -> Callable[[Sequence[Value]], list[Value]]:
        """What runs the body on values for its inputs."""
        captured = {name: around[name] for name in self.captured}

        def run(arguments: Sequence[Value]) -> list[Value]:
            given = dict(zip(self.own, arguments, strict=True))
            found = self.program.run({**given, **captured})
            return [found[name] for name in self.program.graph.outputs]

        return run


def touched(found: Stage, calls: Sequence[Call]) -> int:
    """Bytes of all that calls read and write."""
    names = [found.base(name) for call in calls for name in (*call.reads, *call.writes)]
    known = (name for name in names if name in found.types or name in found.temporaries)
    return sum(nbytes_of(found, name) for name in known)


def operations(site: Site) -> int:
    """Multiplications and additions of a matrix product or a convolution; others have none that count."""
    inner = {
        "Conv": lambda: prod(site.sizes(1)[1:]), "MatMul": lambda: site.sizes(0)[-1],
        "Gemm": lambda: site.sizes(0)[0 if site["transA"] else 1],
        "ConvTranspose": lambda: prod(site.sizes(1)[1:]),
    }.get(site.node.op)  # fmt: skip
    outer = site.sizes(0) if site.node.op == "ConvTranspose" else site.out() if inner else ()
    return 2 * prod(outer) * inner() if inner else 0


def _later(name: str) -> Dim:
    """An address that each run says anew."""
    return Dim(((("&" + name,), 1),))


def constant(array: Array) -> Array:
    """What was folded, as all values are: contiguous and with one NaN; nobody may write into it."""
    array = canonical(np.asarray(array, order="C")).view()
    array.flags.writeable = False
    return array


def _plain(value: Value) -> bool:
    """Whether a value's dtype and shape say all there is to ask about it."""
    masked = isinstance(value, np.ma.MaskedArray)
    return (
        isinstance(value, np.ndarray) and value.flags.c_contiguous and not (masked or value.dtype.hasobject)
    )


def _small(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.size <= KEYED


def _wanted(inference: Inference) -> set[str]:
    """The inputs on whose values sizes depend, or branches: the sources of unknown values that rules asked
    for, if what lies between can be computed ahead.
    """
    found: set[str] = set()
    for site in inference.sites:
        for index in site.wanted:
            found |= _sources(inference, site.node.inputs[index]) or set()
    return found


def _sources(inference: Inference, name: str) -> set[str] | None:
    """The inputs that a value is computed from; None where it can't be known ahead."""
    if name in inference.values:
        return set()
    site = inference.makers.get(name)
    if site is None:
        return {name} if name in inference.graph.inputs else None
    definition = site.definition
    if definition.reference is None or definition.exactness.kind != "bitwise" or site.node.bodies:
        return None
    found: set[str] = set()
    for each in filter(None, site.node.inputs):
        more = _sources(inference, each)
        if more is None:
            return None
        found |= more
    return found

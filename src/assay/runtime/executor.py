"""Runs a graph's plans on a device: explicit, synchronous, with typed failures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from assay.compiler.plan import Compiler, Plan
from assay.errors import ContractError, PrecisionOverflow, misnamed
from assay.graph.graph import Graph
from assay.kernels.cache import Progress, addresses
from assay.ops.resolution import place_of
from assay.runtime.cpu import Cpu
from assay.runtime.tape import Tape
from assay.tensor.buffer import Buffer

Arrays = Mapping[str, NDArray[np.generic]]


class Executor:
    """One graph on one device. Plans are made for buckets of the symbols' sizes and kept.

    `buckets` lists, for each symbol, the sizes that plans are made for, ascending; a run takes the smallest
    that hold it. So there are never more plans than combinations of buckets, whatever sizes runs have. All
    plans share one arena, which grows to the largest. Not thread-safe: one run at a time. `weights` may be
    filled until the first run. Raises ContractError for a symbol without buckets.
    """

    def __init__(
        self,
        graph: Graph,
        device: Cpu,
        weights: Mapping[str, Buffer],
        states: Mapping[str, Buffer],
        buckets: Mapping[str, Sequence[int]],
        *,
        gap: int = 0,
    ) -> None:
        for symbol in graph.symbols:
            if not buckets.get(symbol):
                place, want = f"{graph.name} › {symbol}", "one bucket or more for each symbol"
                raise ContractError("a symbol without buckets", place=place, want=want, got="none")
        self.graph = graph
        self.device = device
        self.buckets = buckets
        self.runs = 0
        """Tapes run so far."""
        self.seconds = 0.0
        """What those tapes took."""
        self._compiler = Compiler(graph)
        self._weights = weights
        self._states = states
        self._plans: dict[tuple[int, ...], Plan] = {}
        self._gap = gap
        self._arena: Buffer | None = None
        self._ready: dict[tuple[int, ...], _Ready] = {}
        self._last: _Ready | None = None

    def plan(self, binding: Mapping[str, int]) -> Plan:
        """The plan that a run with these sizes takes. Raises ContractError when a size is above every
        bucket.
        """
        bucket = self._bucket(binding)
        key = tuple(bucket.values())
        if key not in self._plans:
            self._plans[key] = self._compiler.plan(bucket, gap=self._gap)
        return self._plans[key]

    def prepare(
        self,
        bindings: Sequence[Mapping[str, int]],
        progress: Progress | None = None,
        also: Sequence[str] = (),
    ) -> None:
        """Compile the kernels that runs of these sizes take, and `also` others, so that no run has to."""
        plans = [self.plan(binding) for binding in bindings]
        addresses([*also, *(kernel for plan in plans for kernel in plan.kernels)], progress)

    def run(self, binding: Mapping[str, int], inputs: Arrays) -> dict[str, NDArray[np.generic]]:
        """Run the graph once. Inputs have the shapes that `binding` gives them.

        Outputs are views of the arena that the next run overwrites. Raises ContractError for sizes and inputs
        that are missing, unknown or don't fit, and PrecisionOverflow, naming the first node, when a value
        left its dtype's range.
        """
        ready = self._last
        if ready is None or ready.arena is not self._arena or ready.binding != binding:
            ready = self._last = self._take_on(binding)
        if inputs.keys() != ready.inputs.keys():
            raise misnamed("inputs", self.graph.inputs, inputs).at(self.graph.name)
        for name, place in ready.inputs.items():
            self._write(name, place, inputs[name])
        began = time.perf_counter()
        self.device.launch(ready.tape)
        self.seconds += time.perf_counter() - began
        self.runs += 1
        fault = ready.tape.faulty()
        if fault:
            raise self._overflow(ready.plan, *fault)
        return ready.outputs

    def state(self, name: str) -> NDArray[np.uint8]:
        """[first dimension, bytes]: a view of a state's memory."""
        kind, buffer = self.graph.types[name], self._states[name]
        rows = kind.shape[0].at({})
        return buffer.array(np.uint8, (rows, kind.nbytes({}) // rows))

    def tape(self, binding: Mapping[str, int]) -> Tape:
        """The tape of the plan that runs of these sizes take, as the last of them left it."""
        return self._ready[tuple(self._bucket(binding).values())].tape

    def _bucket(self, binding: Mapping[str, int]) -> dict[str, int]:
        if binding.keys() != set(self.graph.symbols):
            raise misnamed("sizes", self.graph.symbols, binding).at(self.graph.name)
        chosen = {}
        for symbol in self.graph.symbols:
            wanted, sizes = binding[symbol], self.buckets[symbol]
            if not 0 <= wanted <= sizes[-1]:
                rule, want = "a size below 0", "0 or more"
                if wanted > 0:
                    rule, want = "a size above every bucket", f"at most {sizes[-1]}"
                place = f"{self.graph.name} › {symbol}"
                raise ContractError(rule, place=place, want=want, got=str(wanted))
            chosen[symbol] = next(size for size in sizes if size >= wanted)
        return chosen

    def _overflow(self, plan: Plan, number: int, row: int) -> PrecisionOverflow:
        launch = plan.launches[number]
        node = self.graph.nodes[launch.nodes[-1]]
        rule, place = "a value left its dtype's range", f"{self.graph.name} › {place_of(node)}"
        want, got = "finite values that the dtype can hold", f"infinity or not a number in row {row}"
        hint = 'damaged weights, or activations that need activations="float32"'
        error = PrecisionOverflow(rule, place=place, want=want, got=got, hint=hint)
        error.rows, error.row = str(launch.rows), row
        return error

    def _take_on(self, binding: Mapping[str, int]) -> _Ready:
        """The plan for these sizes, bound to memory and to them."""
        key = tuple(self._bucket(binding).values())
        ready = self._ready.get(key)
        if ready is None or ready.arena is not self._arena:
            ready = self._ready[key] = self._make(self.plan(binding))
        ready.bind(binding)
        return ready

    def _write(self, name: str, place: NDArray[np.generic], array: NDArray[np.generic]) -> None:
        """Copy an input to its place; its dtype and shape must be the graph's under the binding."""
        if array.dtype != place.dtype or array.shape != place.shape:
            where, got = f"{self.graph.name} › {name}", f"{array.dtype}{list(array.shape)}"
            want = f"{self.graph.types[name]}, here {list(place.shape)}"
            raise ContractError("an input doesn't fit", place=where, want=want, got=got)
        place[...] = array

    def _make(self, plan: Plan) -> _Ready:
        needed = plan.arena + plan.scratch * self.device.team.nthreads
        if self._arena is None or self._arena.nbytes < needed:
            self._ready.clear()
            self._last = None
            self._arena = None
            self._arena = self.device.allocate(needed, owner=f"{self.graph.name} arena")
        fixed = {name: buffer.address for name, buffer in {**self._weights, **self._states}.items()}
        return _Ready(plan, addresses(plan.kernels), fixed, self._arena)


class _Ready:
    """A plan bound to the arena: its tape, and for the sizes that it took on last, views of the places of
    inputs and outputs.
    """

    def __init__(
        self, plan: Plan, kernels: Mapping[str, int], fixed: Mapping[str, int], arena: Buffer
    ) -> None:
        self.plan = plan
        self.arena = arena
        places = {**fixed, **{name: arena.address + offset for name, offset in plan.offsets.items()}}
        places |= {name: fixed[state] for name, state in plan.aliases.items()}
        self.tape = Tape.of(plan, kernels, places, arena.address + plan.arena)
        self.binding: dict[str, int] = {}
        self.inputs: dict[str, NDArray[np.generic]] = {}
        self.outputs: dict[str, NDArray[np.generic]] = {}

    def bind(self, binding: Mapping[str, int]) -> None:
        """Take on these sizes; steps of decoding have the same ones again and again."""
        self.binding = dict(binding)
        self.inputs = {name: self._view(name) for name in self.plan.graph.inputs}
        self.outputs = {name: self._view(name) for name in self.plan.graph.outputs}
        self.tape.bind(binding)

    def _view(self, name: str) -> NDArray[np.generic]:
        kind = self.plan.graph.types[name]
        shape = tuple(dim.at(self.binding) for dim in kind.shape)
        return self.arena.array(kind.dtype.numpy, shape, offset=self.plan.offsets[name])

"""A whole-graph model: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError, HardwareFault, RequestError
from assay.formats.onnx_file import OnnxModel, load_onnx
from assay.formats.onnx_scopes import modules
from assay.graph.graph import Graph, ValueType
from assay.kernels.cache import Progress
from assay.ops.standard.infer import Inference
from assay.ops.standard.known import FOLDED
from assay.ops.standard.schema import newest, split_name
from assay.runtime.cpu import Cpu
from assay.runtime.example import example_inputs
from assay.runtime.host import Value
from assay.runtime.inputs import admit
from assay.runtime.nonfinite import first_overflow
from assay.runtime.profile import Spent
from assay.runtime.program import Program, Ready, Store
from assay.tensor.narrow import outside

Array = NDArray[np.generic]
NONFINITE = ("allow", "error")


class TensorSpec(NamedTuple):
    """An input or output: its name, element type and shape, each size an integer or a symbol's expression;
    None where the rank isn't known.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


def _weights(model: OnnxModel) -> dict[str, Array]:
    """As callers know them."""
    return {name: outside(array, model.graph.types[name].dtype) for name, array in model.weights.items()}


def analyse(model: OnnxModel) -> Inference:
    """The walk over a file's graph with symbols for sizes that it leaves open."""
    small = {name: array for name, array in _weights(model).items() if array.size <= FOLDED}
    found = Inference(model.graph, {}, small).run()
    if found.errors:
        paths = modules(model)
        for error in found.errors:
            error.module = paths.get(error.line, "")
    return found


def running(model: OnnxModel, inference: Inference) -> tuple[Graph, dict[str, Array]]:
    """The graph as it runs, every node in its newest meaning and functions in line, and its weights."""
    graph = model.graph
    nodes = tuple(site.node for site in inference.sites)
    weights = _weights(model) | inference.constants
    domains = {split_name(node.op)[0] for node in nodes}
    opsets = {domain: newest(domain) for domain in sorted(domains)} | dict(graph.opsets)
    types = {name: kind for name in (*graph.inputs, *weights) if (kind := inference.types[name])}
    outputs = tuple(inference.names.get(name, name) for name in graph.outputs)
    return Graph(graph.name, graph.inputs, tuple(weights), (), nodes, outputs, types, opsets), weights


class Model:
    """A checked model, ready to run. Threads may share it: their runs take turns."""

    def __init__(
        self, model: OnnxModel, threads: int, off: Set[str] = frozenset(), progress: Progress | None = None
    ) -> None:
        """`progress` hears of kernels that are compiled. Raises ContractError with every violation of a
        contract.
        """
        inference = analyse(model)
        self._place = str(model.path or model.graph.name)
        if inference.errors:
            raise ContractError.together(list(inference.errors)).at(self._place)
        self.graph = model.graph
        self.metadata = model.metadata
        self.inputs = tuple(_spec(name, inference.known(name)) for name in self.graph.inputs)
        self.outputs = tuple(_spec(name, inference.known(name)) for name in self.graph.outputs)
        graph, weights = running(model, inference)
        self._given, self._made = model, partial(Model, threads=threads, off=off, progress=progress)
        self._others: dict[frozenset[str], Model] = {}
        self._types = {name: graph.types[name] for name in graph.inputs}
        self._names = dict(zip(graph.outputs, self.graph.outputs, strict=True))
        self._narrow = any(
            kind and kind.dtype.kind in ("float", "narrow") and kind.dtype.size < 4
            for kind in inference.types.values()
        )
        store = Store(Cpu(threads))
        self.program = Program(
            graph,
            store,
            weights,
            trusted=True,
            off=off,
            progress=progress,
            admit=partial(admit, self._types, self._place),
            own=True,
        )

    @staticmethod
    def load(path: Path, threads: int, progress: Progress | None = None) -> Model:
        """The model in a file. Raises FormatError or ContractError."""
        return Model(load_onnx(path), threads, progress=progress)

    def run(self, inputs: Mapping[str, Value], *, nonfinite: str = "allow") -> dict[str, Value]:
        """The outputs by name, in memory of their own. Arrays are taken as they are: one of another dtype, or
        that isn't contiguous, is refused. A weight that the file lists among its inputs may be given, too: it
        is a default then.

        With `nonfinite` "error", infinity or NaN that a node makes of finite values is PrecisionOverflow,
        which names the first such node, whether or not an output shows it. The processor's flags tell whether
        to look for one: that costs a second run, which keeps all values. Graphs with floats narrower than
        float32 are looked through in each run.

        Raises ContractError for inputs that are missing, unknown or don't fit, and RequestError for another
        `nonfinite`.
        """
        if nonfinite not in NONFINITE:
            raise RequestError("no such way", place="nonfinite", want=" or ".join(NONFINITE), got=nonfinite)
        device = self.program.store.device
        with device.lock:
            instead = self._given.defaults and self._given.defaults.intersection(inputs)
            if instead:
                if instead not in self._others:
                    self._others[instead] = self._made(self._given.without(instead))
                return self._others[instead].run(inputs, nonfinite=nonfinite)
            device.flagged = False
            try:
                found = self.program.run(inputs)
            except MemoryError as error:
                want, got = "room for a plan and its values", f"{error}"[:300]
                raise HardwareFault("memory gave out", place=self._place, want=want, got=got) from error
            if nonfinite == "error" and (device.flagged or self._narrow):
                overflow = first_overflow(self.program, inputs)
                if overflow:
                    raise overflow.at(self._place)
        return {self._names[name]: value for name, value in found.items()}

    def profile(
        self, inputs: Mapping[str, Value], repeats: int = 5
    ) -> list[tuple[Spent[tuple[str, str]], int, int]]:
        """Where a run's time goes: by operators and kernel, the longest first; with each its operations in
        products, and bytes. Host steps aren't in it.
        """
        with self.program.store.device.lock:
            self.run(inputs)
            return self.program.profile(inputs, repeats)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the team's threads go. A run that comes later starts them again."""
        self.program.store.device.close()

    def preheat(self, example: Mapping[str, Value] | None = None) -> None:
        """Compile all kernels and touch all weights before the first request: `optimize_for_batch(1)`."""
        self.optimize_for_batch(1, example)

    def optimize_for_batch(self, batch: int, example: Mapping[str, Value] | None = None) -> None:
        """Make the plan for a batch ahead, by a run on zeros.

        The batch is the first size that the inputs leave open, and wherever else its symbol stands; where
        sizes have no symbols, the first open one of each input. Other open sizes are 64. Inputs of an
        `example` have their own sizes but for the batch, and their own values: give those on which sizes or
        branches depend.

        Raises ContractError where such inputs don't fit the model.
        """
        self.run(example_inputs(self._types, batch, example or {}))

    def stages(self) -> Iterator[Ready]:
        """The plans of the last run, one after the other."""
        return self.program.stages()


def _spec(name: str, kind: ValueType | None) -> TensorSpec:
    if kind is None:
        return TensorSpec(name, "unknown", None)
    shape = tuple(str(dim) if dim.constant is None else dim.constant for dim in kind.shape)
    return TensorSpec(name, str(kind if kind.element else kind.dtype), shape if kind.ranked else None)

"""A whole-graph model: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError, RequestError, near
from assay.formats.onnx_file import OnnxModel, load_onnx
from assay.formats.onnx_scopes import modules
from assay.graph.dim import Dim
from assay.graph.graph import Graph, ValueType
from assay.graph.text import quote
from assay.kernels.cache import Progress
from assay.ops.standard.infer import Inference
from assay.ops.standard.schema import newest, split_name
from assay.runtime.cpu import Cpu
from assay.runtime.example import example_inputs
from assay.runtime.host import Value, type_of
from assay.runtime.nonfinite import first_overflow
from assay.runtime.profile import Spent
from assay.runtime.program import Program, Ready, Store
from assay.tensor.narrow import numpy_of, outside

Array = NDArray[np.generic]
NONFINITE = ("allow", "error")


class TensorSpec(NamedTuple):
    """An input or output: its name, element type and shape, each size an integer or a symbol's expression;
    None where the rank isn't known.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None


def analyse(model: OnnxModel) -> Inference:
    """The walk over a file's graph with symbols for sizes that it leaves open."""
    weights = {name: outside(array, model.graph.types[name].dtype) for name, array in model.weights.items()}
    small = {name: array for name, array in weights.items() if array.size <= 1 << 16}
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
    weights = {name: outside(array, graph.types[name].dtype) for name, array in model.weights.items()}
    weights |= inference.constants
    domains = {split_name(node.op)[0] for node in nodes}
    opsets = {domain: newest(domain) for domain in sorted(domains)} | dict(graph.opsets)
    types = {name: kind for name in (*graph.inputs, *weights) if (kind := inference.types[name])}
    outputs = tuple(inference.names.get(name, name) for name in graph.outputs)
    return Graph(graph.name, graph.inputs, tuple(weights), (), nodes, outputs, types, opsets), weights


class Model:
    """A checked model, ready to run. Not thread-safe: one run at a time."""

    def __init__(
        self, model: OnnxModel, threads: int, off: Set[str] = frozenset(), progress: Progress | None = None
    ) -> None:
        """`progress` hears of kernels that are compiled. Raises ContractError with every violation of a
        contract.
        """
        inference = analyse(model)
        if inference.errors:
            place = str(model.path or model.graph.name)
            raise ContractError.together(list(inference.errors)).at(place)
        self.graph = model.graph
        self.metadata = model.metadata
        self.inputs = tuple(_spec(name, inference.known(name)) for name in self.graph.inputs)
        self.outputs = tuple(_spec(name, inference.known(name)) for name in self.graph.outputs)
        graph, weights = running(model, inference)
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
            admit=partial(admit, self._types, self.graph.name),
        )

    @staticmethod
    def load(path: Path, threads: int, progress: Progress | None = None) -> Model:
        """The model in a file. Raises FormatError or ContractError."""
        return Model(load_onnx(path), threads, progress=progress)

    def run(self, inputs: Mapping[str, Value], *, nonfinite: str = "allow") -> dict[str, Value]:
        """The outputs by name. Arrays are taken as they are: one of another dtype, or that isn't contiguous,
        is refused.

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
        device.flagged = False
        found = self.program.run(inputs)
        if nonfinite == "error" and (device.flagged or self._narrow):
            error = first_overflow(self.program, inputs)
            if error:
                raise error.at(self.graph.name)
        return {self._names[name]: value for name, value in found.items()}

    def profile(
        self, inputs: Mapping[str, Value], repeats: int = 5
    ) -> list[tuple[Spent[tuple[str, str]], int, int]]:
        """Where a run's time goes: by operators and kernel, the longest first; with each its operations in
        products, and bytes. Host steps aren't in it.
        """
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


def admit(types: Mapping[str, ValueType], graph: str, inputs: Mapping[str, Value]) -> None:
    """Hold inputs against the types that a graph wants. Raises ContractError."""
    if inputs.keys() != types.keys():
        missing = [name for name in types if name not in inputs]
        unknown = [name for name in inputs if name not in types]
        parts = ["no " + ", ".join(missing)] * bool(missing) + ["unknown " + ", ".join(unknown)] * bool(
            unknown
        )
        hint, names = near(unknown[0], missing) if unknown else "", ", ".join(types) or "none"
        rule = "inputs missing or unknown"
        raise ContractError(rule, place=graph, want=names, got="; ".join(parts), hint=hint)
    symbols: dict[str, tuple[int, str]] = {}
    for name, want in types.items():
        _admit(name, inputs[name], want, symbols, f"{graph} › input {quote(name)}")


def _admit(name: str, value: Value, want: ValueType, symbols: dict[str, tuple[int, str]], place: str) -> None:
    """Raises ContractError for a value that doesn't fit an input."""
    if not isinstance(value, np.ndarray):
        if want.element is None:
            hint = f'{{"{name}": np.asarray(value, np.{numpy_of(want.dtype)})}}'
            raise ContractError(
                "not an array", place=place, want=str(want), got=type(value).__name__, hint=hint
            )
        return
    kind = type_of(value)
    if want.element is None and kind.dtype != want.dtype:
        hint = f"np.ascontiguousarray({name}, dtype=np.{numpy_of(want.dtype)})"
        raise ContractError("wrong dtype", place=place, want=str(want), got=str(kind), hint=hint)
    if not value.flags.c_contiguous:
        got, hint = f"strides {value.strides} of {list(value.shape)}", f"np.ascontiguousarray({name})"
        raise ContractError("not contiguous in C's order", place=place, want=str(want), got=got, hint=hint)
    if want.element or not want.ranked:
        return
    fits = len(kind.shape) == len(want.shape)
    for dim, size in zip(want.shape, value.shape, strict=False):
        fits = fits and dim.constant in (None, size)
        single = dim.terms[0][0][0] if len(dim.terms) == 1 and len(dim.terms[0][0]) == 1 else None
        if fits and isinstance(single, str) and dim == Dim.of(single):
            first, whose = symbols.setdefault(single, (size, name))
            if first != size:
                want_text = f"{single} = {first}, as in {quote(whose)}"
                raise ContractError("sizes disagree", place=place, want=want_text, got=f"{size} in {kind}")
    if not fits:
        raise ContractError("wrong shape", place=place, want=str(want), got=str(kind))


def _spec(name: str, kind: ValueType | None) -> TensorSpec:
    if kind is None:
        return TensorSpec(name, "unknown", None)
    shape = tuple(str(dim) if dim.constant is None else dim.constant for dim in kind.shape)
    return TensorSpec(name, str(kind if kind.element else kind.dtype), shape if kind.ranked else None)

"""A tiny model of tests/golden as an engine, llama by default: random weights, fast enough for properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.compiler.lower import quantize_activations
from assay.formats.fields import Config
from assay.formats.quant import dequantise, quantise
from assay.formats.tensors import TensorInfo, hold
from assay.graph.graph import Graph
from assay.kernels.sizes import PAGE
from assay.llm.engine import Engine, buckets
from assay.llm.guesses import Guesses
from assay.models.architecture import find
from assay.models.decoder import Decoder, weights
from assay.models.decoder_graph import computed, graph
from assay.models.parts import Part, Weights, stored
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import Pack, load
from assay.tensor.dtype import BF16, F16, F32, DType

GOLDEN = Path(__file__).parents[1] / "golden"
Floats = NDArray[np.float32]


def safetensors(path: Path) -> tuple[dict[str, NDArray[np.generic]], dict[str, DType]]:
    """A file of float32 or bfloat16 tensors: a length, a JSON table of places, the bytes."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    table = json.loads(content[8 : 8 + length])
    found: dict[str, NDArray[np.generic]] = {}
    kinds = {}
    for name, entry in table.items():
        if name != "__metadata__":
            kinds[name] = {"F32": F32, "BF16": BF16}[entry["dtype"]]
            begin, end = entry["data_offsets"]
            flat = np.frombuffer(content[8 + length + begin : 8 + length + end], kinds[name].numpy)
            found[name] = flat.reshape(entry["shape"])
    return found, kinds


@dataclass(frozen=True)
class Raw:
    """Arrays as files would hold them."""

    arrays: Mapping[str, NDArray[np.generic]]

    def raw(self, name: str) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.arrays[name]).reshape(-1).view(np.uint8)


class Arrays:
    """Tensors in memory, as a file of them."""

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]], dtypes: Mapping[str, DType]) -> None:
        self.arrays = arrays
        self.tensors = {
            name: TensorInfo(name, dtypes[name], array.shape, 0, array.nbytes)
            for name, array in arrays.items()
        }

    def raw(self, name: str) -> NDArray[np.uint8]:
        return np.ascontiguousarray(self.arrays[name]).reshape(-1).view(np.uint8)


def golden(name: str) -> tuple[Decoder, dict[str, Part], Arrays]:
    """A golden model's shape, where its weights lie, and its tensors as stored."""
    folder = GOLDEN / name
    fields = json.loads((folder / "config.json").read_text())
    found = find(fields["model_type"].removesuffix("_text"), name)
    model = found.from_config(Config(fields, name), name)
    tensors, dtypes = safetensors(folder / "model.safetensors")
    file = Arrays(tensors, dtypes)
    parts = found.layout.parts(model)
    hold(file.tensors, stored(parts, weights(model)), name)
    return model, parts, file


class Small:
    """The model's graph and weights on a device; engines of any size over them."""

    def __init__(
        self,
        device: Cpu,
        dtype: DType | None = None,
        cache: DType = F16,
        planted: Mapping[str, Floats] | None = None,
        name: str = "llama",
    ) -> None:
        """Linear maps hold `dtype`, None for what is stored; quantised ones take 8-bit activations. `planted`
        replaces float32 maps once they are loaded, so it may hold what no file may.
        """
        self.device, self.cache = device, cache
        self.model, parts, file = golden(name)
        wanted = weights(self.model)
        held = Weights(file, parts, wanted, computed(self.model))
        self.dtypes, arrays = dict(held.dtypes), {}
        for each, want in wanted.items():
            kind, raw = self.dtypes[each], held.raw(each)
            if dtype and len(want.shape) == 2 and dtype is not kind:
                raw = quantise(dequantise(raw, kind, want.shape), dtype).reshape(-1).view(np.uint8)
                kind = dtype
            self.dtypes[each], arrays[each] = kind, raw
        self.source = Raw({**arrays, **computed(self.model)})
        self.vocabulary = self.model.vocabulary
        step = self.graph(1, 1)
        self.weights = load(step, self.source, device)
        for each, array in (planted or {}).items():
            raw = array.reshape(-1).view(np.uint8)
            pack = Pack(each, self.source, step.types[each], self.weights[each])
            device.call_all(pack.kernel(), [pack.arguments(raw)])

    def graph(self, pages: int, table: int) -> Graph:
        """One step's graph, for a cache of so many pages and so many of them for one sequence."""
        made = graph(self.model, self.dtypes, self.cache, pages, table)
        quantised = any(dtype.quantised for dtype in self.dtypes.values())
        return quantize_activations(made) if quantised else made

    def engine(
        self, *, pages: int = 64, context: int = 512, budget: int = 512, guesses: Guesses | None = None
    ) -> Engine:
        """An engine with a cache of its own."""
        graph = self.graph(pages, -(-context // PAGE))
        states = {
            name: self.device.allocate(graph.types[name].nbytes({}), owner=name) for name in graph.states
        }
        executor = Executor(graph, self.device, self.weights, states, buckets(self.vocabulary))
        return Engine(
            executor, pages=pages, context=context, vocabulary=self.vocabulary, budget=budget, guesses=guesses
        )

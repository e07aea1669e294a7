"""`assay.load`: a name or a path becomes a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay import settings
from assay.compiler.lower import quantize_activations
from assay.errors import RequestError
from assay.formats.gguf import GgufFile, open_gguf
from assay.graph.graph import Graph
from assay.hub.pull import resolve
from assay.kernels.sizes import PAGE
from assay.llm import engine as engines
from assay.llm.language_model import LanguageModel
from assay.llm.template import ChatTemplate
from assay.llm.tokenizer import Tokenizer
from assay.models import llama
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import load as load_weights
from assay.runtime.weights import pack_kernel, panels
from assay.tensor.dtype import F16, F32

ACTIVATIONS = ("int8", "float32")


class Progress:
    """What `load` tells as it goes; the base class is silent."""

    def download(self, done: int, total: int) -> None:
        """Bytes of the model's file."""

    def compile(self, done: int, total: int, name: str) -> None:
        """Kernels ready."""

    def weights(self, done: int, total: int) -> None:
        """Bytes of weights in place."""


@dataclass(frozen=True)
class _Weights:
    """A file's weights, and those that are computed."""

    file: GgufFile
    computed: Mapping[str, NDArray[np.generic]]

    def raw(self, name: str) -> NDArray[np.uint8]:
        if name in self.computed:
            return self.computed[name].view(np.uint8)
        return self.file.raw(name)


def load(
    name: str | Path,
    *,
    threads: int | None = None,
    activations: str = "int8",
    context: int | None = None,
    cache_tokens: int | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> LanguageModel:
    """The language model with this catalogue name or in this GGUF file, ready to run.

    `threads` is the team's size, by default all processors. `activations` "float32" computes linear maps and
    keeps the cache in float32: slower and exact to rounding. `context` limits the tokens of one sequence
    (default: the model's), `cache_tokens` the tokens of all sequences together, `budget` the tokens of one
    step.

    Raises ModelNotFoundError, FormatError, ContractError, HardwareFault or RequestError.
    """
    progress = progress or Progress()
    if activations not in ACTIVATIONS:
        raise RequestError(
            "no such mode", place="activations", want=" or ".join(ACTIVATIONS), got=repr(activations)
        )
    threads = settings.THREADS.get() if threads is None else threads
    if threads < 1:
        raise RequestError("a team needs a thread", place="threads", want="at least 1", got=str(threads))
    path = resolve(name, progress.download)
    with open_gguf(path) as file:
        model = llama.from_gguf(file)
        context = min(context or model.context, model.context)
        tokenizer = Tokenizer.from_gguf(file.metadata)
        template = _template(file, tokenizer)
        cache = F32 if activations == "float32" else F16
        pages = _pages(model, context, cache_tokens, cache.size)
        dtypes = {name: tensor.dtype for name, tensor in file.tensors.items()}
        graph = llama.graph(model, dtypes, cache, pages, -(-context // PAGE))
        if activations == "int8":
            graph = quantize_activations(graph)
        device = Cpu(threads, progress=progress.compile)
        executor = _executor(graph, file, llama.computed(model), device, progress)
        file.release()
    budget = budget or engines.BUDGET
    engine = engines.Engine(
        executor, pages=pages, context=context, vocabulary=model.vocabulary, budget=budget
    )
    details = {
        "path": str(path),
        "activations": activations,
        "cache": str(cache),
        "threads": threads,
        "parameters": model,
    }
    return LanguageModel(graph, engine, tokenizer, template, details)


def _executor(
    graph: Graph, file: GgufFile, computed: Mapping[str, NDArray[np.generic]], device: Cpu, progress: Progress
) -> Executor:
    states = {name: device.allocate(graph.types[name].nbytes({}), owner=name) for name in graph.states}
    # Kernels are compiled before weights are read, so that a failure comes early and the bars come in order.
    probe = Executor(graph, device, {}, states, engines.buckets())
    packing = {pack_kernel(graph.types[name].dtype) for name in panels(graph)}
    probe.prepare([{"T": 1, "S": 1, "R": 1}], progress.compile, also=sorted(packing))
    weights = load_weights(graph, _Weights(file, computed), device, progress.weights)
    return Executor(graph, device, weights, states, engines.buckets())


def _pages(model: llama.Llama, context: int, cache_tokens: int | None, size: int) -> int:
    """Pages of the cache: what was asked for, or a context and as much more as a quarter of the memory
    holds.
    """
    if cache_tokens is not None:
        return max(1, -(-cache_tokens // PAGE))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = memory // 4 // (model.kv_bytes * size * PAGE)
    return int(max(-(-context // PAGE), min(most, engines.SEQUENCES * -(-context // PAGE))))


def _template(file: GgufFile, tokenizer: Tokenizer) -> ChatTemplate | None:
    source = file.metadata.get("tokenizer.chat_template")
    if source is None:
        return None
    if not isinstance(source, str):
        file.expect("tokenizer.chat_template", str)
    bos = tokenizer.token_bytes(tokenizer.bos_id).decode() if tokenizer.bos_id is not None else ""
    eos = tokenizer.token_bytes(min(tokenizer.eos_ids)).decode() if tokenizer.eos_ids else ""
    return ChatTemplate(str(source), bos, eos)

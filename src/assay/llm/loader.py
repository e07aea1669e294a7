"""A language model's file becomes its graph, and then the model, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from assay.compiler.lower import quantize_activations
from assay.errors import FormatError, PrecisionOverflow, RequestError, within
from assay.formats.recipe import Recipe
from assay.graph.graph import Graph
from assay.kernels.sizes import PAGE
from assay.llm import engine as engines
from assay.llm.draft import Draft
from assay.llm.guesses import Guesser, Guesses, Lookup
from assay.llm.identity import Identity
from assay.llm.language_model import LanguageModel
from assay.llm.options import Options
from assay.llm.source import Source, open_source
from assay.models.adapters import read_adapter, stacked
from assay.models.decoder import Decoder
from assay.models.decoder_graph import Lora, graph
from assay.ops import contract
from assay.runtime.cpu import Cpu, memory
from assay.runtime.executor import Executor
from assay.runtime.team import Team
from assay.runtime.weights import lay_out, pack_kernel, panels, repack
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import BY_NAME, F16, F32

Compiled = Callable[[int, int, str], None]
Loaded = Callable[[int, int], None]


@dataclass(frozen=True)
class Design:
    """What follows from a file's head, before any weight is read: one step's graph, and the cache's size."""

    graph: Graph
    context: int
    pages: int


def design(source: Source, options: Options, lora: Lora = MappingProxyType({})) -> Design:
    """The graph that runs the source's model, with the adapters' weights. Raises ContractError with all
    violations, or RequestError for a context that the model doesn't have.
    """
    if options.quantize:
        with within("quantize"):
            source.weights.follow(Recipe(BY_NAME[options.quantize]))
    model = source.model
    context = model.context if options.context is None else options.context
    if context > model.context:
        want, got = f"at most {model.context}, the model's own", str(context)
        raise RequestError("a context that is too long", place="context", want=want, got=got)
    cache = F32 if options.activations == "float32" else F16
    pages = _pages(model, context, options.cache_tokens, cache.size)
    step = graph(model, source.weights.dtypes, cache, pages, -(-context // PAGE), lora)
    if options.activations == "int8":
        step = quantize_activations(step)
    contract.require(step)
    return Design(step, context, pages)


def load(
    path: Path, options: Options, compiled: Compiled, loaded: Loaded, draft: Path | None = None
) -> LanguageModel:
    """The model in a GGUF file or a folder, ready to run; `draft` is a smaller model that guesses for it.

    `compiled` and `loaded` hear of progress: kernels, then bytes of weights. Raises FormatError,
    ContractError, RequestError or HardwareFault.
    """
    device = Cpu(options.threads)
    lm = _load(path, options, device, compiled, loaded)
    guesser: Guesser | None = Lookup() if options.guesses else None
    if draft:
        how = replace(options, context=None, adapters={}, quantize=None)
        smaller = _load(draft, how, device, compiled, loaded)
        if _spelling(smaller) != _spelling(lm):
            rule, hint = "a draft model with other tokens", "it must be of the same family"
            raise RequestError(rule, place="draft", want=f"the tokens of {path}", got=str(draft), hint=hint)
        guesser = Draft(smaller.engine)
    lm.engine.guesses = Guesses(guesser) if guesser else None
    return lm


def _spelling(lm: LanguageModel) -> list[bytes]:
    """What each token stands for."""
    return [*map(lm.tokenizer.token_bytes, range(lm.tokenizer.vocabulary_size))]


def _load(path: Path, options: Options, device: Cpu, compiled: Compiled, loaded: Loaded) -> LanguageModel:
    with open_source(path) as source:
        adapters = {
            name: read_adapter(Path(folder), source.model, source.modules)
            for name, folder in options.adapters.items()
        }
        lora = stacked([*adapters.values()])
        source.weights.computed |= lora
        made = design(source, options, lora)
        weights: dict[str, Buffer] = {}
        executor = _executor(made.graph, device, weights, compiled)
        buffers, packs = lay_out(made.graph, source.weights, device)
        weights.update(buffers)
        # Repacking is native code, so the interpreter is free for the tokenizer meanwhile.
        with ThreadPoolExecutor(1, "assay-load") as beside:
            repacked = beside.submit(repack, packs, device, loaded)
            tokenizer = source.tokenizer()
            template = source.template(tokenizer)
            repacked.result()
        source.release()
    how = {
        "activations": options.activations,
        "cache": "float32" if options.activations == "float32" else "float16",
        "weights": source.weights.kinds(),
        "parameters": source.model,
    }
    identity = Identity(path, how)
    engine = engines.Engine(
        executor,
        pages=made.pages,
        context=made.context,
        vocabulary=source.model.vocabulary,
        ends=tokenizer.end_ids,
        budget=engines.BUDGET if options.budget is None else options.budget,
        root=identity.root,
        tokenizer=tokenizer,
        prefix_cache=options.prefix_cache,
        adapters={name: adapter.digest for name, adapter in adapters.items()},
    )
    _try(engine, path)
    details = {"path": str(path), **how, "threads": options.threads}
    return LanguageModel(made.graph, engine, tokenizer, template, details, identity)


def _try(engine: engines.Engine, path: Path) -> None:
    """A token's logits, thrown away: what can't compute one is damaged, whatever its weights look like."""
    try:
        logits = np.stack([engine.logits([0], adapter) for adapter in engine.adapters])
    except PrecisionOverflow as error:
        raise error.at(str(path)) from None
    if not np.isfinite(logits).all():
        hint = "the weights are damaged: fetch the file again"
        raise FormatError("logits that are not finite", place=str(path), hint=hint)


def _executor(graph: Graph, device: Cpu, weights: Mapping[str, Buffer], compiled: Compiled) -> Executor:
    """An executor whose kernels are compiled, before any weight is read: a failure comes early."""
    states = {name: device.reserve(graph.types[name].nbytes({}), owner=name) for name in graph.states}
    executor = Executor(graph, device, weights, states, engines.buckets())
    packing = {pack_kernel(graph.types[name].dtype) for name in panels(graph)}
    executor.prepare([{"T": 1, "S": 1, "R": 1, "A": 0}], compiled, also=[*sorted(packing), *Team.KERNELS])
    return executor


def _pages(model: Decoder, context: int, cache_tokens: int | None, size: int) -> int:
    """Pages of the cache: what was asked for, or a context and as much more as a quarter of the memory
    holds.
    """
    if cache_tokens is not None:
        return -(-cache_tokens // PAGE)
    most = memory() // 4 // (model.kv_elements * size * PAGE)
    return int(max(-(-context // PAGE), min(most, engines.SEQUENCES * -(-context // PAGE))))

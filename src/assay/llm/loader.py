"""A language model's file becomes its graph, and then the model, ready to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from assay.compiler.lower import quantize_activations
from assay.errors import FormatError, PrecisionOverflow, RequestError, within
from assay.formats.recipe import Recipe
from assay.graph.graph import Graph
from assay.kernels.cache import Progress
from assay.kernels.sizes import PAGE
from assay.llm import embedding_model
from assay.llm import engine as engines
from assay.llm.draft import Draft
from assay.llm.embedding_model import EmbeddingModel
from assay.llm.guesses import Guesser, Guesses, Lookup
from assay.llm.identity import Identity, unchanged
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
from assay.runtime.weights import LoadProgress, lay_out, pack_kernel, panels, repack
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import BY_NAME, F16, F32

Sizes = Mapping[str, Sequence[int]]


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
    cache = F32 if options.activations == "float32" or model.embeds else F16
    held = _pages(model, context, options.cache_tokens, cache.size)
    pages = embedding_model.pages(context) if model.embeds else held
    step = graph(model, source.weights.dtypes, cache, pages, -(-context // PAGE), lora)
    if options.activations == "int8":
        step = quantize_activations(step)
    contract.require(step)
    return Design(step, context, pages)


def load(
    path: Path, options: Options, compiled: Progress, loaded: LoadProgress, draft: Path | None = None
) -> LanguageModel | EmbeddingModel:
    """The model in a GGUF file or a folder, ready to run; `draft` is a smaller model that guesses for it.

    `compiled` and `loaded` hear of progress: kernels, then bytes of weights. Raises FormatError,
    ContractError, RequestError or HardwareFault.
    """
    if draft and not options.guesses:
        raise RequestError("a draft can't guess", place="draft", want="no --no-guesses, or guesses=True")
    device = Cpu(options.threads)
    lm = _load(path, options, device, compiled, loaded)
    if isinstance(lm, EmbeddingModel):
        if draft:
            raise RequestError("an embedder has no such option", place="draft")
        return lm
    guesser: Guesser | None = Lookup() if options.guesses else None
    if draft:
        how = replace(options, context=None, adapters={}, quantize=None)
        smaller = _load(draft, how, device, compiled, loaded)
        if isinstance(smaller, EmbeddingModel) or _spelling(smaller) != _spelling(lm):
            rule, hint = "a draft model with other tokens", "it must be of the same family"
            raise RequestError(rule, place="draft", want=f"the tokens of {path}", got=str(draft), hint=hint)
        guesser = Draft(smaller.engine)
    lm.engine.guesses = Guesses(guesser) if guesser else None
    return lm


def _spelling(lm: LanguageModel) -> list[bytes]:
    """What each token stands for."""
    return [*map(lm.tokenizer.token_bytes, range(lm.tokenizer.vocabulary_size))]


def _load(
    path: Path, options: Options, device: Cpu, compiled: Progress, loaded: LoadProgress
) -> LanguageModel | EmbeddingModel:
    with unchanged(path) as stamps, open_source(path) as source:
        unused = [name for name in ("adapters", "cache_tokens", "budget") if getattr(options, name)]
        if source.model.embeds and unused:
            raise RequestError("an embedder has no such option", place=unused[0])
        adapters = {
            name: read_adapter(Path(folder), source.model, source.modules)
            for name, folder in options.adapters.items()
        }
        lora = stacked([*adapters.values()])
        source.weights.computed |= lora
        made = design(source, options, lora)
        weights: dict[str, Buffer] = {}
        model = source.model
        sizes = embedding_model.buckets(made.context) if model.embeds else engines.buckets(model.vocabulary)
        executor = _executor(made.graph, device, weights, sizes, compiled)
        buffers, packs = lay_out(made.graph, source.weights, device)
        weights.update(buffers)
        # Repacking is native code, so the interpreter is free for the tokenizer meanwhile.
        with ThreadPoolExecutor(1, "assay-load") as beside:
            repacked = beside.submit(repack, packs, device, loaded)
            tokenizer = source.tokenizer()
            template = None if source.model.embeds else source.template(tokenizer)
            repacked.result()
    how = {
        "activations": options.activations,
        "cache": made.graph.types[made.graph.states[0]].dtype.name,
        "weights": source.weights.kinds(),
        "parameters": source.model,
    }
    details = {"path": str(path), **how, "threads": options.threads}
    if source.model.embeds:
        embedder = EmbeddingModel(executor, tokenizer, source.model, made.context, details)
        _try("hidden states", lambda: embedder.hidden_states([0]), path)
        return embedder
    identity = Identity(path, how, stamps)
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
    _try(
        "logits",
        lambda: np.stack([engine.output("logits", [0], adapter) for adapter in engine.adapters]),
        path,
    )
    return LanguageModel(made.graph, engine, tokenizer, template, details, identity)


def _try(what: str, compute: Callable[[], NDArray[np.float32]], path: Path) -> None:
    """A token's numbers, thrown away: what can't compute them is damaged, whatever its weights look like."""
    try:
        found = compute()
    except PrecisionOverflow as error:
        raise error.at(str(path)) from None
    if not np.isfinite(found).all():
        hint = "the weights are damaged: fetch the file again"
        raise FormatError(f"{what} that are not finite", place=str(path), hint=hint)


def _executor(
    graph: Graph, device: Cpu, weights: Mapping[str, Buffer], sizes: Sizes, compiled: Progress
) -> Executor:
    """An executor whose kernels are compiled, before any weight is read: a failure comes early."""
    states = {name: device.reserve(graph.types[name].nbytes({}), owner=name) for name in graph.states}
    executor = Executor(graph, device, weights, states, sizes)
    packing = {pack_kernel(graph.types[name].dtype) for name in panels(graph)}
    least = {symbol: each[0] for symbol, each in sizes.items()}
    executor.prepare([least], compiled, also=[*sorted(packing), *Team.KERNELS])
    return executor


def _pages(model: Decoder, context: int, cache_tokens: int | None, size: int) -> int:
    """Pages of the cache: what was asked for, or a context and as much more as a quarter of the memory
    holds.
    """
    if cache_tokens is not None:
        return -(-cache_tokens // PAGE)
    most = memory() // 4 // (model.kv_elements * size * PAGE)
    return int(max(-(-context // PAGE), min(most, engines.SEQUENCES * -(-context // PAGE))))

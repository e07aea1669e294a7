"""A language model's file becomes its graph, and then the model, ready to run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from assay.compiler.lower import quantize_activations
from assay.errors import FormatError, RequestError
from assay.formats.gguf import GgufFile, open_gguf
from assay.formats.inventory import hold
from assay.graph.graph import Graph
from assay.kernels.sizes import PAGE
from assay.llm import engine as engines
from assay.llm.language_model import LanguageModel
from assay.llm.options import Options
from assay.llm.template import ChatTemplate
from assay.llm.tokenizer import Tokenizer
from assay.models.decoder import Decoder, weights
from assay.models.decoder_graph import computed, graph
from assay.models.llama_gguf import from_gguf
from assay.models.parts import Part, Weights, stored
from assay.ops import contract
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.team import Team
from assay.runtime.weights import lay_out, pack_kernel, panels, repack
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import F16, F32

Compiled = Callable[[int, int, str], None]
Loaded = Callable[[int, int], None]


@dataclass(frozen=True)
class Design:
    """What follows from a file's head, before any weight is read: one step's graph, and the cache's size."""

    model: Decoder
    weights: Weights
    graph: Graph
    context: int
    pages: int


def design(file: GgufFile, options: Options) -> Design:
    """The graph that runs the file's model. Raises FormatError, ContractError with all violations, or
    RequestError for a context that the model doesn't have.
    """
    model = from_gguf(file)
    wanted = weights(model)
    parts = {name: Part(name) for name in wanted}
    hold(file.tensors, stored(parts, wanted), str(file.path))
    _check_tokens(file, model.vocabulary)
    context = model.context if options.context is None else options.context
    if context > model.context:
        want, got = f"at most {model.context}, the model's own", str(context)
        raise RequestError("a context that is too long", place="context", want=want, got=got)
    cache = F32 if options.activations == "float32" else F16
    pages = _pages(model, context, options.cache_tokens, cache.size)
    held = Weights(file, parts, wanted, computed(model))
    step = graph(model, held.dtypes, cache, pages, -(-context // PAGE))
    if options.activations == "int8":
        step = quantize_activations(step)
    contract.require(step)
    return Design(model, held, step, context, pages)


def load(path: Path, options: Options, compiled: Compiled, loaded: Loaded) -> LanguageModel:
    """The model in a GGUF file, ready to run.

    `compiled` and `loaded` hear of progress: kernels, then bytes of weights. Raises FormatError,
    ContractError, RequestError or HardwareFault.
    """
    with open_gguf(path) as file, _naming(path):
        made = design(file, options)
        device = Cpu(options.threads)
        weights: dict[str, Buffer] = {}
        executor = _executor(made.graph, device, weights, compiled)
        buffers, packs = lay_out(made.graph, made.weights, device)
        weights.update(buffers)
        # Repacking is native code, so the interpreter is free for the tokenizer meanwhile.
        with ThreadPoolExecutor(1, "assay-load") as beside:
            repacked = beside.submit(repack, packs, device, loaded)
            tokenizer = Tokenizer.from_gguf(file.metadata)
            template = _template(file, tokenizer)
            repacked.result()
        file.release()
    engine = engines.Engine(
        executor,
        pages=made.pages,
        context=made.context,
        vocabulary=made.model.vocabulary,
        ends=tokenizer.end_ids,
        budget=engines.BUDGET if options.budget is None else options.budget,
    )
    details = {
        "path": str(path),
        "activations": options.activations,
        "cache": "float32" if options.activations == "float32" else "float16",
        "threads": options.threads,
        "parameters": made.model,
    }
    return LanguageModel(made.graph, engine, tokenizer, template, details)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors in what the file holds say which file it is, as those of the file itself do."""
    try:
        yield
    except FormatError as error:
        if not error.place.startswith(str(path)):
            error.at(str(path))
        raise


def _executor(graph: Graph, device: Cpu, weights: Mapping[str, Buffer], compiled: Compiled) -> Executor:
    """An executor whose kernels are compiled, before any weight is read: a failure comes early."""
    states = {name: device.reserve(graph.types[name].nbytes({}), owner=name) for name in graph.states}
    executor = Executor(graph, device, weights, states, engines.buckets())
    packing = {pack_kernel(graph.types[name].dtype) for name in panels(graph)}
    executor.prepare([{"T": 1, "S": 1, "R": 1}], compiled, also=[*sorted(packing), *Team.KERNELS])
    return executor


def _pages(model: Decoder, context: int, cache_tokens: int | None, size: int) -> int:
    """Pages of the cache: what was asked for, or a context and as much more as a quarter of the memory
    holds.
    """
    if cache_tokens is not None:
        return -(-cache_tokens // PAGE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = memory // 4 // (model.kv_elements * size * PAGE)
    return int(max(-(-context // PAGE), min(most, engines.SEQUENCES * -(-context // PAGE))))


def _check_tokens(file: GgufFile, vocabulary: int) -> None:
    """The tokenizer has as many tokens as the embedding has rows."""
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, tuple) and len(tokens) != vocabulary:
        raise FormatError(
            "another number of tokens than the model has",
            place=f"{file.path} › key 'tokenizer.ggml.tokens'",
            want=f"{vocabulary:,}, the rows of 'token_embd.weight'",
            got=f"{len(tokens):,}",
        )


def _template(file: GgufFile, tokenizer: Tokenizer) -> ChatTemplate | None:
    if "tokenizer.chat_template" not in file.metadata:
        return None
    source = file.expect("tokenizer.chat_template", str)
    ids = (tokenizer.bos_id, tokenizer.eos_id)
    bos, eos = (tokenizer.decode([] if token is None else [token], skip_special=False) for token in ids)
    return ChatTemplate(source, bos, eos)

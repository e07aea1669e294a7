"""SHA-256 of what SmolLM2 computes: the same on every processor, on any number of threads, in every process.

`python -m llm.digests MODEL THREADS` prints them as JSON; tests/golden/smollm2/nodes.json holds them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import assay
from assay.llm.engine import Engine
from assay.llm.language_model import LanguageModel
from assay.llm.request import Sampling
from assay.llm.scheduler import Share
from assay.llm.step import step_inputs
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor

GOLDEN = Path(__file__).parents[1] / "golden" / "smollm2"
PROMPT = 70
"""Tokens of the prompt: they cross a page."""
LAST = "blk.29."


def sha(array: NDArray[np.generic]) -> str:
    """The digest of an array's elements, little-endian."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def executor_like(executor: Executor, device: Cpu, outputs: tuple[str, ...] = ()) -> Executor:
    """Another executor over the same weights and cache, on another device, with more outputs."""
    graph = replace(executor.graph, outputs=(*executor.graph.outputs, *outputs))
    return Executor(graph, device, executor._weights, executor._states, executor.buckets)


def engine_like(engine: Engine, device: Cpu) -> Engine:
    """Another engine over the same weights and cache. Only one of the two may keep pages for later."""
    return Engine(
        executor_like(engine.executor, device),
        pages=engine.pages.count,
        context=engine.context,
        vocabulary=engine.vocabulary,
        budget=engine.budget,
    )


def nodes(engine: Engine, device: Cpu, tokens: list[int]) -> dict[str, str]:
    """A prompt in one piece: the first layer's values, the last layer's end, and the last row of logits."""
    graph = engine.executor.graph
    wanted = tuple(
        name
        for node in graph.nodes
        for name in node.outputs
        if ("blk.0." in name or name == f"{LAST}ffn_residual" or name in ("turns", "embedded", "final"))
        and "'" not in name
    )
    executor = executor_like(engine.executor, device, wanted)
    other = Engine(executor, pages=engine.pages.count, context=engine.context, vocabulary=engine.vocabulary)
    sequence = other.add(tokens, Sampling(max_tokens=1))
    sequence.hold(other.pages, len(tokens))
    share = Share(sequence, len(tokens), 1)
    found = executor.run(*step_inputs([share], engine.vocabulary))
    return {name: sha(found[name]) for name in (*wanted, "logits")}


def greedy(engine: Engine, tokens: list[int], count: int) -> str:
    """The digest of the likeliest `count` tokens that follow."""
    sequence = engine.add(tokens, Sampling(max_tokens=count))
    while engine.busy:
        engine.step()
    return sha(np.array(sequence.tokens[sequence.prompt_length :], "<i4"))


def digests(lm: LanguageModel, device: Cpu) -> dict[str, str]:
    """Nodes of a prompt of 70 tokens, and the 8 tokens after it."""
    tokens = np.load(GOLDEN / "logits.npz")["tokens"][:PROMPT].tolist()
    found = nodes(lm.engine, device, tokens)
    return {**found, "tokens": greedy(engine_like(lm.engine, device), tokens, 8)}


def main() -> None:
    path, threads = sys.argv[1:]
    lm = assay.load(path, threads=int(threads), context=512)
    print(json.dumps(digests(lm, lm.engine.executor.device)))


if __name__ == "__main__":
    main()

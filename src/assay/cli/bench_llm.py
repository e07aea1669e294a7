"""`assay bench llm`: how fast a language model reads and answers."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from assay.cli import machine, options
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import load_model
from assay.errors import RequestError
from assay.kernels.sizes import PAGE

if TYPE_CHECKING:
    from assay.graph.graph import Graph
    from assay.llm.engine import Engine

Figures = dict[str, object]
SHORT = 8
"""Tokens of the prompt before decoding is timed."""


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    whole, wholes = options.whole, options.several(options.whole(1))
    parser.add_argument("--prompt", type=whole(1), default=512, metavar="N", help="prompt tokens (512)")
    parser.add_argument("--generate", type=whole(2), default=128, metavar="N", help="new tokens (128)")
    parser.add_argument("--batch", type=wholes, default=(1,), metavar="N,…", help="sequences at once (1)")
    parser.add_argument("--repeats", type=whole(1), default=3, metavar="N", help="medians of N (3)")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of the prompts' tokens (0)")
    parser.add_argument("--json", action="store_true", help="for programs")


def _run(arguments: argparse.Namespace) -> int:
    lm = load_model(arguments, guesses=False, prefix_cache=False)
    engine, repeats = lm.engine, range(arguments.repeats)
    room = min(engine.context, engine.pages.count * PAGE)
    if arguments.prompt + arguments.generate > room:
        place, want = "--prompt, --generate", f"at most {room:,} together"
        got = f"{arguments.prompt:,} of the prompt and {arguments.generate:,} new ones"
        raise RequestError("too many tokens for this model", place=place, want=want, got=got)
    device = engine.executor.device
    prompts = _prompts(max(arguments.batch), arguments.prompt, engine.vocabulary, arguments.seed)
    # Plans are made at their first use, which no figure is to hold.
    for warm in ([prompts[0][:SHORT]], *(prompts[:size] for size in (1, *arguments.batch))):
        _time(engine, warm, 2)
    before = machine.limits(device).memory
    prefills = [_time(engine, prompts[:1], 1) for _ in repeats]
    decodes = [_time(engine, [prompts[0][:SHORT]], arguments.generate) for _ in repeats]
    batches = [
        _batch([_time(engine, prompts[:size], arguments.generate) for _ in repeats], size, arguments)
        for size in arguments.batch
    ]
    # Measured before and after: what the machine gives changes while others share it.
    bandwidth = max(before, machine.limits(device).memory)
    token = median(run.last - run.first for run in decodes) / (arguments.generate - 1)
    read = _bytes_read(lm.graph)
    found = {
        "model": arguments.model,
        "conditions": machine.conditions(
            device.team.nthreads, arguments.seed, activations=arguments.activations, repeats=arguments.repeats
        ),
        "prefill": {
            "tokens": arguments.prompt,
            "tokens_per_s": round(arguments.prompt / median(run.first for run in prefills), 1),
        },
        "decode": {
            "tokens": arguments.generate,
            "tokens_per_s": round(1 / token, 1),
            "weights_read_mb": round(read / 1e6, 1),
            "memory_limit_gb_per_s": round(bandwidth / 1e9, 2),
            "share_of_memory_limit": round(read / token / bandwidth, 3),
            "python_ms_per_step": round(1e3 * median(run.outside for run in decodes), 3),
        },
        "batches": batches,
    }
    print(json.dumps(found) if arguments.json else "\n".join(_text(found)))
    return GOOD


@dataclass(frozen=True)
class _Timed:
    """Seconds until all sequences had a token, until all was done, and of a step outside the tape."""

    first: float
    last: float
    outside: float


def _time(engine: Engine, prompts: Sequence[Sequence[int]], generate: int) -> _Timed:
    """Answer the prompts together, greedily, with exactly `generate` tokens each."""
    from assay.llm.request import Sampling

    executor = engine.executor
    steps, tapes = engine.steps, executor.seconds
    began = time.perf_counter()
    started: set[int] = set()
    first = 0.0
    for prompt in prompts:
        engine.add(prompt, Sampling(max_tokens=generate))
    while engine.busy:
        started.update(drawn.sequence.number for drawn in engine.step())
        if not first and len(started) == len(prompts):
            first = time.perf_counter() - began
    last = time.perf_counter() - began
    return _Timed(first, last, (last - (executor.seconds - tapes)) / (engine.steps - steps))


def _prompts(count: int, tokens: int, vocabulary: int, seed: int) -> list[list[int]]:
    """Tokens drawn evenly from the vocabulary: what they mean doesn't change the work."""
    import numpy as np

    drawn: list[list[int]] = np.random.default_rng(seed).integers(0, vocabulary, (count, tokens)).tolist()
    return drawn


def _bytes_read(graph: Graph) -> int:
    """Bytes of the weights that a step reads as a whole: all but a table that only embeds."""
    return sum(
        graph.types[name].nbytes({})
        for name in graph.weights
        if any(node.op != "embedding" for node in graph.uses.get(name, ()))
    )


def _batch(runs: Sequence[_Timed], size: int, arguments: argparse.Namespace) -> Figures:
    seconds = median(run.last for run in runs)
    return {
        "sequences": size,
        "total_tokens_per_s": round(size * (arguments.prompt + arguments.generate) / seconds, 1),
        "new_tokens_per_s": round(size * arguments.generate / seconds, 1),
        "first_token_s": round(median(run.first for run in runs), 3),
        "python_ms_per_step": round(1e3 * median(run.outside for run in runs), 3),
    }


def _text(found: Mapping[str, object]) -> Iterator[str]:
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield f"{name}:"
            yield from (f"  {key:<24}{item}" for key, item in value.items())
        elif isinstance(value, list):
            yield f"{name}:"
            for row in value:
                yield "  " + ", ".join(f"{key.replace('_', ' ')} {item}" for key, item in row.items())
        else:
            yield f"{name}: {value}"


COMMAND = Command(
    "bench llm",
    "Measure reading, answering, and many sequences at once.",
    (
        "assay bench llm smollm2",
        "assay bench llm smollm2 --prompt 512 --generate 128 --batch 1,8,32 --threads 2 --json",
    ),
    _declare,
    _run,
    "Prefill is the time to the first token of a prompt, decode that of each further token of one sequence.\n"
    "The share of the memory limit is of the bandwidth that a kernel which only reads has in the same run.",
)

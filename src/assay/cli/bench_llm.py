"""Measure reading, answering, and many sequences at once.

Prefill is the time to the first token of a prompt, decode that of each further token of one sequence.
The share of the memory limit is of the bandwidth that a kernel which only reads has in the same run.

    assay bench llm smollm2
    assay bench llm smollm2 --prompt 512 --generate 128 --batch 1,8,32 --threads 2 --json
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from assay.cli import machine, options
from assay.cli.command import Argument, Report, Values
from assay.cli.model import load_model
from assay.cli.progress import Bars
from assay.cli.text import figures
from assay.errors import RequestError
from assay.kernels.sizes import PAGE

if TYPE_CHECKING:
    from assay.graph.graph import Graph
    from assay.llm.engine import Engine

SHORT = 8
"""Tokens of the prompt before decoding is timed."""
ARGUMENTS = (
    *options.LOADING,
    Argument("--prompt", "prompt tokens", "N", options.whole(1), 512),
    Argument("--generate", "new tokens", "N", options.whole(2), 128),
    Argument("--batch", "sequences at once", "N,…", options.several(options.whole(1)), (1,)),
    Argument("--repeats", "medians of N", "N", options.whole(1), 3),
    Argument("--seed", "of the prompts' tokens", "N", options.whole(0), 0),
    options.JSON,
)


def run(arguments: Values) -> Report:
    lm = load_model(arguments)
    engine, generate = lm.engine, arguments.generate
    room = min(engine.context, engine.pages.count * PAGE)
    if arguments.prompt + generate > room:
        place, want = "--prompt, --generate", f"at most {room:,} together"
        got = f"{arguments.prompt:,} of the prompt and {generate:,} new ones"
        raise RequestError("too many tokens for this model", place=place, want=want, got=got)
    # Drawn evenly: what tokens mean doesn't change the work.
    draw, tokens = random.Random(arguments.seed), range(engine.vocabulary)
    prompts = [draw.choices(tokens, k=arguments.prompt) for _ in range(max(arguments.batch))]
    asked: Asked = {
        "prefill": (prompts[:1], 1),
        "decode": ([prompts[0][:SHORT]], generate),
        **{size: (prompts[:size], generate) for size in arguments.batch},
    }
    with Bars() as progress:
        runs, bandwidth = _measure(engine, asked, arguments.repeats, progress)
    token = median(run.last - run.first for run in runs["decode"]) / (generate - 1)
    read, threads = _bytes_read(lm.graph), engine.executor.device.team.nthreads
    found: dict[str, object] = {
        "model": arguments.model,
        "conditions": machine.conditions(threads, arguments.seed, **options.ways(arguments)),
        "prefill": {
            "tokens": arguments.prompt,
            "tokens_per_s": round(arguments.prompt / median(run.first for run in runs["prefill"]), 1),
        },
        "decode": {
            "tokens": generate,
            "tokens_per_s": round(1 / token, 1),
            "weights_read_mb": round(read / 1e6, 1),
            "memory_limit_gb_per_s": round(bandwidth / 1e9, 2),
            "share_of_memory_limit": round(read / token / bandwidth, 3),
            "python_ms_per_step": round(1e3 * median(run.outside for run in runs["decode"]), 3),
        },
        "batches": [_batch(runs[size], size, arguments) for size in arguments.batch],
    }
    return Report(found, figures(found))


@dataclass(frozen=True)
class _Timed:
    """Seconds until all sequences had a token, until all was done, and of a step outside the tape."""

    first: float
    last: float
    outside: float


Asked = dict[str | int, tuple[list[list[int]], int]]
"""By kind, or by size of a batch: prompts, and how many new tokens each."""
Runs = dict[str | int, list[_Timed]]


def _measure(engine: Engine, asked: Asked, repeats: int, progress: Bars) -> tuple[Runs, float]:
    """What is asked, timed again and again; and the memory's bandwidth."""
    runs: Runs = {kind: [] for kind in asked}
    limits = []
    for number in range(repeats + 1):
        for index, (kind, (prompts, generate)) in enumerate(asked.items(), start=number * len(asked)):
            progress.count("measuring", "runs", index, (repeats + 1) * len(asked), long=True)
            # Plans are made at their first use, which no figure is to hold.
            run = _time(engine, prompts, generate if number else 2)
            runs[kind] += [run] if number else []
        # Measured before and after: what the machine gives changes while others share it.
        if number in (0, repeats):
            limits.append(machine.limits(engine.executor.device).memory)
    return runs, max(limits)


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


def _bytes_read(graph: Graph) -> int:
    """Bytes of the weights that a step reads as a whole: all but a table that only embeds."""
    return sum(
        graph.types[name].nbytes({})
        for name in graph.weights
        if any(node.op != "embedding" for node in graph.uses.get(name, ()))
    )


def _batch(runs: Sequence[_Timed], size: int, arguments: Values) -> dict[str, object]:
    seconds = median(run.last for run in runs)
    return {
        "sequences": size,
        "total_tokens_per_s": round(size * (arguments.prompt + arguments.generate) / seconds, 1),
        "new_tokens_per_s": round(size * arguments.generate / seconds, 1),
        "first_token_s": round(median(run.first for run in runs), 3),
        "python_ms_per_step": round(1e3 * median(run.outside for run in runs), 3),
    }

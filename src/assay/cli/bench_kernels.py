"""Measure each kernel on a model's shapes, with the share of the machine's limit.

The launches of one kernel on one shape are timed together on the whole team; - stands where they are
too short to tell. The limits are measured in the same run by kernels that only read, only multiply, or
only form 8-bit dots, as for weights of 4 bits. Weights of matrix products count against the memory's
bandwidth, other values against the caches'. --targets compares the variants that kernels have for
different instruction sets; their bits are the same.

    assay bench kernels smollm2
    assay bench kernels smollm2 --tokens 1,8,512 --threads 2 --json
    assay bench kernels smollm2 --targets host,avx2,baseline
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay import settings
from assay.cli import machine, options
from assay.cli.command import NO, Argument, Report, Values
from assay.cli.machine import Limits, Work, work_of
from assay.cli.model import load_model
from assay.cli.progress import Bars
from assay.cli.text import figures, table
from assay.errors import HardwareFault

if TYPE_CHECKING:
    from assay.compiler.plan import Launch
    from assay.llm.engine import Engine

PAST = 512
"""Tokens in the cache before a step of one token is timed."""
SHORTEST = 1e-6
"""Seconds below which a launch alone says nothing: starting the team takes longer."""
Found = dict[str, Any]
"""What is printed as JSON."""
TARGETS = options.several(options.one_of(settings.CPU_LEVELS))
ARGUMENTS = (
    *options.LOADING,
    Argument("--tokens", "of steps", "N,…", options.several(options.whole(1)), (1, 512)),
    Argument("--targets", f"to compare: {', '.join(settings.CPU_LEVELS)}", "NAME,…", TARGETS),
    Argument("--repeats", "the best of N counts", "N", options.whole(1), 5),
    options.JSON,
)


def run(arguments: Values) -> Report:
    from assay.kernels.target import named

    for target in arguments.targets or ():
        try:
            named(target)
        except HardwareFault as fault:
            fault.hint = "leave it out"
            raise fault.at("--targets") from None
    # A process has one target: the same kernel for another one has the same symbol.
    found = [_in_child(arguments, target) for target in arguments.targets or ()] or [_measure(arguments)]
    return Report(found, (line for one in found for line in _text(one)))


def _in_child(arguments: Values, target: str) -> Found:
    """What `_measure` gives in a process with this target. Raises SystemExit where it failed and said why."""
    given = {**vars(arguments), "tokens": ",".join(map(str, arguments.tokens)), "targets": None}
    model, _ = given.pop("model"), given.pop("json")
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    command = [sys.executable, "-m", "assay", "bench", "kernels", model, "--json", *words]
    environment = settings.child_environment(settings.CPU.name, {settings.CPU.name: target})
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode:
        raise SystemExit(max(child.returncode, NO))  # that of a signal is below 0
    answer: Found = json.loads(child.stdout)[0]
    return answer


def _measure(arguments: Values) -> Found:
    lm = load_model(arguments)
    device = lm.engine.executor.device
    steps: list[Found] = []
    with Bars() as progress:
        progress.count("measuring", "steps", 0, len(arguments.tokens), long=True)
        limits = machine.limits(device)
        for tokens in arguments.tokens:
            steps.append(_step(lm.engine, tokens, arguments.repeats, limits))
            progress.count("measuring", "steps", len(steps), len(arguments.tokens), long=True)
    return {
        "model": arguments.model,
        "conditions": machine.conditions(device.team.nthreads, 0, **options.ways(arguments)),
        "limits": limits.figures(),
        "steps": steps,
    }


def _step(engine: Engine, tokens: int, repeats: int, limits: Limits) -> Found:
    """The launches of a step of `tokens` tokens of one sequence, those alike together."""
    from assay.llm.request import Sampling
    from assay.llm.scheduler import Share
    from assay.llm.step import step_inputs
    from assay.runtime.profile import profile

    past = PAST if tokens == 1 else 0
    prompt = [index % engine.vocabulary for index in range(past + tokens)]
    sequence = engine.add(prompt, Sampling(max_tokens=1))
    try:
        for count in filter(None, (past, tokens)):
            sequence.hold(engine.pages, count)
            share = Share(sequence, count, 1)
            binding, inputs = step_inputs([share], engine.vocabulary)
            if sequence.pending > tokens:
                engine.executor.run(binding, inputs)
                sequence.computed += count
        plan = engine.executor.plan(binding)

        def kind(launch: Launch) -> tuple[str, Work]:
            return launch.kernel, work_of(plan, launch, binding, past + tokens)

        spent = profile(engine.executor, binding, inputs, kind, repeats)
    finally:
        engine.cancel(sequence)
    rows = [_row(*group.kind, group.launches, group.seconds, limits) for group in spent]
    return {"tokens": tokens, "past": past, "kernels": rows}


def _row(kernel: str, work: Work, launches: int, together: float, limits: Limits) -> Found:
    """Launches of one kernel on one shape: how many, their milliseconds together, and what each reached,
    which is None for launches too short to be timed alone.
    """
    seconds = together / launches
    timed = seconds >= SHORTEST
    least, limit = work.least_seconds(limits)
    return {
        "kernel": kernel,
        "shape": work.shape,
        "launches": launches,
        "ms": round(1e3 * together, 3),
        "gop_per_s": round(work.operations / seconds / 1e9, 1) if timed else None,
        "gb_per_s": round((work.weights + work.values) / seconds / 1e9, 2) if timed else None,
        "share_of_limit": round(least / seconds, 3) if timed else None,
        "limit": limit,
    }


def _text(found: Found) -> Iterator[str]:
    steps = found["steps"]
    yield from figures({name: value for name, value in found.items() if value is not steps})
    for step in steps:
        yield f"\na step of {step['tokens']} token{'s' * (step['tokens'] > 1)} after {step['past']}"
        rows = [[name.replace("_per_", "/").replace("_", " ") for name in step["kernels"][0]]]
        for row in step["kernels"]:
            share = row["share_of_limit"]
            told = row | ({} if share is None else {"share_of_limit": f"{share:.0%}"})
            rows.append(["-" if cell is None else str(cell) for cell in told.values()])
        yield from (f"  {line}" for line in table(rows, left=2))

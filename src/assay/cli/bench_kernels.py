"""`assay bench kernels`: each kernel on a model's shapes, beside what the machine can do at most."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from assay import settings
from assay.cli import machine, options
from assay.cli.command import GOOD, NO, Command, Parser
from assay.cli.model import load_model
from assay.errors import HardwareFault

if TYPE_CHECKING:
    from assay.cli.machine import Limits
    from assay.cli.work import Work
    from assay.compiler.plan import Launch
    from assay.llm.engine import Engine

PAST = 512
"""Tokens in the cache before a step of one token is timed."""
SHORTEST = 1e-6
"""Seconds below which a launch alone says nothing: starting the team takes longer."""
Found = dict[str, Any]
"""What is printed as JSON."""


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    whole, levels = options.whole(1), settings.CPU_LEVELS
    wholes, targets = options.several(whole), options.several(options.one_of(levels))
    compared = f"instruction sets to compare: {', '.join(levels)} (ASSAY_CPU's)"
    parser.add_argument("--tokens", type=wholes, default=(1, 512), metavar="N,…", help="of steps (1,512)")
    parser.add_argument("--targets", type=targets, metavar="NAME,…", help=compared)
    parser.add_argument("--repeats", type=whole, default=5, metavar="N", help="the best of N counts (5)")
    parser.add_argument("--json", action="store_true", help="for programs")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.targets is None:
        found = [_measure(arguments)]
    else:
        _require(arguments.targets)
        found = []
        for target in arguments.targets:
            # A process has one target: the same kernel for another one has the same symbol.
            answer = _in_child(arguments, target)
            if answer is None:
                return NO
            found.append(answer)
    print(json.dumps(found) if arguments.json else "\n".join(line for one in found for line in _text(one)))
    return GOOD


def _require(targets: Sequence[str]) -> None:
    """Raise HardwareFault for a target that this processor lacks, before any other is measured."""
    from assay.kernels.target import named

    for target in targets:
        try:
            named(target)
        except HardwareFault as fault:
            fault.hint = "leave it out"
            raise fault.at("--targets") from None


def _in_child(arguments: argparse.Namespace, target: str) -> Found | None:
    """What `_measure` gives in a process with this target, or None where it failed and said why."""
    command = [sys.executable, "-m", "assay", "bench", "kernels", arguments.model, "--json"]
    command += [f"--tokens={','.join(map(str, arguments.tokens))}", f"--repeats={arguments.repeats}"]
    command += [f"--activations={arguments.activations}"]
    command += [f"--threads={arguments.threads}"] if arguments.threads else []
    command += [f"--quantize={arguments.quantize}"] if arguments.quantize else []
    environment = settings.child_environment(settings.CPU.name, {settings.CPU.name: target})
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode:
        return None
    answer: Found = json.loads(child.stdout)[0]
    return answer


def _measure(arguments: argparse.Namespace) -> Found:
    lm = load_model(arguments, guesses=False, prefix_cache=False)
    device = lm.engine.executor.device
    limits = machine.limits(device)
    steps = [_step(lm.engine, tokens, arguments.repeats, limits) for tokens in arguments.tokens]
    return {
        "model": arguments.model,
        "conditions": machine.conditions(
            device.team.nthreads, 0, activations=arguments.activations, repeats=arguments.repeats
        ),
        "limits": limits.figures(),
        "steps": steps,
    }


def _step(engine: Engine, tokens: int, repeats: int, limits: Limits) -> Found:
    """The launches of a step of `tokens` tokens of one sequence, those alike together."""
    from assay.cli.work import work_of
    from assay.llm.request import Sampling
    from assay.llm.scheduler import Share
    from assay.llm.step import step_inputs
    from assay.runtime.profile import profile

    past = PAST if tokens == 1 else 0
    sequence = engine.add(
        [index % engine.vocabulary for index in range(past + tokens)], Sampling(max_tokens=1)
    )
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
        "limit": limit,
        "share_of_limit": round(least / seconds, 3) if timed else None,
    }


def _text(found: Found) -> Iterator[str]:
    for name in ("conditions", "limits"):
        yield name + ": " + ", ".join(f"{key} {value}" for key, value in found[name].items())
    for step in found["steps"]:
        yield f"\na step of {step['tokens']} token{'s' * (step['tokens'] > 1)} after {step['past']}"
        yield _line("kernel", "shape", "launches", "ms", "GOP/s", "GB/s", "share of the limit")
        for row in step["kernels"]:
            share = row["share_of_limit"]
            reached = f"{share:.0%} {row['limit']}" if share is not None else "too short to tell"
            names = ("kernel", "shape", "launches", "ms", "gop_per_s", "gb_per_s")
            yield _line(*("-" if row[name] is None else str(row[name]) for name in names), reached)


def _line(kernel: str, shape: str, *rest: str) -> str:
    *figures, reached = rest
    return f"  {kernel:<22}{shape:<18}" + "".join(f"{figure:>10}" for figure in figures) + f"  {reached}"


COMMAND = Command(
    "bench kernels",
    "Measure each kernel on a model's shapes, with the share of the machine's limit.",
    (
        "assay bench kernels smollm2",
        "assay bench kernels smollm2 --tokens 1,8,512 --threads 2 --json",
        "assay bench kernels smollm2 --targets host,avx2,baseline",
    ),
    _declare,
    _run,
    "The launches of one kernel on one shape are timed together on the whole team. The limits are measured\n"
    "in the same run by kernels that only read, only multiply, or only form 8-bit dots, as for weights of 4\n"
    "bits. Weights of matrix products count against the memory's bandwidth, other values against the\n"
    "caches'. --targets compares the variants that kernels have for different instruction sets; their bits\n"
    "are the same.",
)

"""Engines in processes of their own: what runs them, and how a figure is taken from several in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from assay import settings
from assay.errors import HardwareFault

ROOT = Path(__file__).parent.parent
PAUSE = 0.1
"""Seconds between two measurements: whoever spins after its work has stopped by then."""
DISTURBED = 0.1
"""A measurement is taken once more when others used more than this share of the processors meanwhile."""


class Process:
    """One engine at work in another interpreter; see workers/wire.py. Use as a context manager."""

    def __init__(self, name: str, python: str = sys.executable) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed in __exit__
        paths = [str(ROOT), *(path for path in sys.path if path)] if python == sys.executable else [str(ROOT)]
        changes = {"PYTHONPATH": os.pathsep.join(paths)}
        self._child = subprocess.Popen(
            [python, "-m", f"benchmarks.workers.{name}"],
            env=settings.child_environment("PYTHONPATH", changes),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def call(self, call: str, **arguments: object) -> object:
        """The answer to one request. Raises HardwareFault when the engine fails or dies."""
        return self.timed(call, **arguments)[0]

    def timed(self, call: str, **arguments: object) -> tuple[object, float]:
        """The answer, and the processor time that it took."""
        assert self._child.stdin and self._child.stdout
        try:
            self._child.stdin.write(json.dumps({"call": call, "with": arguments}) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"error": f"the process ended\n{self._said()}"}
        if "error" in answer:
            raise HardwareFault("an engine failed", place=f"{self.name}.{call}", got=answer["error"])
        return answer["result"], answer["cpu"]

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-2000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child.stdin
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
        self._errors.close()


def importable(python: str, module: str) -> bool:
    """Whether this interpreter has the module."""
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    return found.returncode == 0


@dataclass
class Series:
    """One engine's figure: its settings, tokens per second in each round, and how busy others were."""

    variant: Mapping[str, object]
    rates: list[float] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """One figure: what is asked of an engine, with other tokens each round, and how many tokens that is."""

    figure: str
    arguments: Sequence[Mapping[str, object]]
    tokens: int
    trials: Sequence[Mapping[str, object]]
    """What each setting is tried on when the best is looked for: less, where the whole takes long."""

    def rate(self, engine: Process, index: int) -> tuple[float, float]:
        """Tokens per second, and the share of the processors that others used meanwhile."""
        time.sleep(PAUSE)
        before, began = _busy(), time.perf_counter()
        seconds, cpu = engine.timed(self.figure, **self.arguments[index])
        elapsed = time.perf_counter() - began
        foreign = (_busy() - before - cpu) / (elapsed * (os.cpu_count() or 1))
        return self.tokens / float(str(seconds)), max(0.0, foreign)


def best_variants(engines: Sequence[Process], work: Work) -> dict[str, Series]:
    """For each engine the fastest of its settings, ready to run."""
    chosen = {}
    for engine in engines:
        variants = engine.call("variants", figure=work.figure)
        assert isinstance(variants, list)
        found: list[tuple[float, dict[str, object]]] = []
        for variant in variants:
            engine.call("configure", figure=work.figure, variant=variant)
            if len(variants) > 1:
                times = [float(str(engine.call(work.figure, **trial))) for trial in work.trials]
                found.append((min(times), variant))
        best = min(found, key=lambda pair: pair[0])[1] if found else variants[0]
        engine.call("configure", figure=work.figure, variant=best)
        engine.call(work.figure, **work.trials[0])
        chosen[engine.name] = Series(best)
    return chosen


def measure(engines: Sequence[Process], work: Work, rounds: int) -> dict[str, Series]:
    """The figure from every engine in turn, `rounds` times: in one round all see nearly the same machine."""
    found = best_variants(engines, work)
    for index in range(rounds):
        for engine in engines:
            tries = [work.rate(engine, index)]
            if tries[0][1] > DISTURBED:
                tries.append(work.rate(engine, index))
            rate, foreign = min(tries, key=lambda pair: pair[1])
            found[engine.name].rates.append(rate)
            found[engine.name].foreign.append(foreign)
    return found


def _busy() -> float:
    """Seconds that all processors have worked since the start, for anyone."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, soft, steal = map(int, words[:8])
    return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")

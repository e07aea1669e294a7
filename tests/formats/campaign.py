"""Hostile files against a reader, by the thousand: what came of each, its seconds, and its megabytes."""

from __future__ import annotations

import argparse
import collections
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TESTS = Path(__file__).parents[1]
SECONDS = 1.0
MEGABYTES = 200.0


@dataclass(frozen=True)
class Campaign:
    """`make` writes a case into an empty folder, `attempt` reads it and says what came of it, which `check`
    holds against other readers, its time not counted.

    `heavy` are cases that cost the most for their bytes; those are read in processes of their own, whose heap
    has no room to spare, and which find the campaign in `module`, by the name CAMPAIGN.
    """

    module: str
    make: Callable[[random.Random, Path], Path]
    attempt: Callable[[Path], str]
    heavy: Callable[[Path], Iterator[tuple[str, Path]]]
    check: Callable[[Path, str], None] = lambda path, result: None

    def main(self, description: str | None) -> int:
        """The command: 0, or 1 if a limit was broken."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--cases", type=int, default=2000)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--open", type=Path, help="read this one and print its figures")
        arguments = parser.parse_args()
        if arguments.open:
            result, seconds, megabytes = Meter(self.attempt).measure(arguments.open)
            print(seconds, megabytes, result)
            return 0
        return 0 if self.run(arguments.cases, arguments.seed) else 1

    def run(self, cases: int, seed: int) -> bool:
        """Run the campaign and print its figures; False if a limit was broken."""
        rules: collections.Counter[str] = collections.Counter()
        meter = Meter(self.attempt)
        slowest = highest = total = 0.0
        sound = True

        def report(name: str, seconds: float, megabytes: float) -> None:
            nonlocal slowest, highest, total, sound
            slowest, highest, total = max(slowest, seconds), max(highest, megabytes), total + seconds
            if seconds > SECONDS or megabytes > MEGABYTES:
                sound = False
                print(f"{name}: {seconds:.3f} s, {megabytes:.1f} MB over the baseline")

        for case in range(cases):
            with tempfile.TemporaryDirectory() as folder:
                path = self.make(random.Random(f"{seed}:{case}"), Path(folder))
                result, seconds, megabytes = meter.measure(path)
                self.check(path, result)
            rules[result] += 1
            report(f"case {case}", seconds, megabytes)
        print(f"numpy {np.__version__}, python {sys.version.split()[0]}; {cases} mutations, seed {seed}:")
        mean = total / max(cases, 1)
        print(f"slowest {slowest * 1e3:.1f} ms, mean {mean * 1e3:.2f} ms, highest {highest:.1f} MB")
        for rule, count in rules.most_common():
            print(f"{count:7} {rule}")
        with tempfile.TemporaryDirectory() as folder:
            for name, path in self.heavy(Path(folder)):
                result, seconds, megabytes = self.alone(path)
                print(f"{name}: {seconds:.3f} s, {megabytes:.1f} MB: {result}")
                report(name, seconds, megabytes)
        return sound

    def alone(self, path: Path) -> tuple[str, float, float]:
        """What came of one case in a process of its own, the processor's seconds, and the megabytes."""
        command = [sys.executable, "-m", self.module, "--open", str(path)]
        output = subprocess.run(command, cwd=TESTS, check=True, capture_output=True, text=True).stdout
        seconds, megabytes, result = output.rstrip().split(" ", 2)
        return result, float(seconds), float(megabytes)


class Meter:
    """Time and memory of one case: the peak of resident memory over what was resident at the start.

    The time is the processor's, since others may be at work beside; readers wait for nothing but their file.
    """

    def __init__(self, attempt: Callable[[Path], str]) -> None:
        self.attempt = attempt
        self.baseline = self._status("VmRSS")

    @staticmethod
    def _status(name: str) -> float:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024

    def measure(self, path: Path) -> tuple[str, float, float]:
        """What came of the case, its seconds, and its megabytes over the baseline."""
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        start = time.process_time()
        result = self.attempt(path)
        return result, time.process_time() - start, self._status("VmHWM") - self.baseline

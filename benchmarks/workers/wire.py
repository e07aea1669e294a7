"""What the driver and an engine's process say to each other: JSON lines, a request and its answer."""

from __future__ import annotations

import json
import os
import resource
import sys
import traceback
from pathlib import Path
from typing import Protocol


class Engine(Protocol):
    """An engine that is measured. Times are seconds of wall clock, taken inside the engine's process."""

    def about(self) -> dict[str, str]:
        """Versions and what was built in."""

    def variants(self, figure: str) -> list[dict[str, object]]:
        """The settings worth trying for "prefill", "decode" or "batch"; the best is counted."""

    def load(self, path: str, threads: int) -> None:
        """Read the file, ready to be configured."""

    def configure(self, figure: str, variant: dict[str, object]) -> None:
        """Take on these settings."""

    def prefill(self, tokens: list[int]) -> float:
        """From a prompt to its last token's logits."""

    def decode(self, tokens: list[int], count: int) -> float:
        """`count` further tokens, one at a time, after the prompt; end tokens don't end it."""

    def batch(self, prompts: list[list[int]], count: int) -> float:
        """All prompts, and `count` new tokens for each."""

    def greedy(self, tokens: list[int], count: int) -> list[int]:
        """The likeliest tokens after the prompt."""

    def memory(self) -> dict[str, int]:
        """Bytes, under "resident", "peak" and "import" (what was resident before a file was loaded)."""

    def logits(self, tokens: list[int], path: str) -> bool:
        """float32 [tokens, vocabulary] as an .npy file; False when the engine doesn't give them away."""


def resident() -> int:
    """Resident bytes of this process, mapped files included."""
    return _status("VmRSS")


def peak() -> int:
    """The most bytes that were ever resident."""
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def serve(engine: object) -> None:
    """Answer requests {"call": name, "with": {…}} with {"result", "cpu"} until the input ends: each a call of
    an `Engine`, of which `engine` has what its figures take.

    `cpu` is the processor time that the call took, all threads together. What the engine itself prints goes
    to stderr.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        before = _cpu()
        try:
            answer = {"result": getattr(engine, request["call"])(**request["with"])}
        except Exception as error:  # the driver reports it and goes on without this engine
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["cpu"] = _cpu() - before
        answers.write(json.dumps(answer) + "\n")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

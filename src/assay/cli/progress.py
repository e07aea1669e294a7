"""Progress bars on standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from assay.cli import interrupt, streams
from assay.load import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Rich

DELAY = 0.3
"""Seconds that a stage must last before it is shown: a quick one isn't worth rich's import."""


class Bars(Progress):
    """One line for what goes on: a bar, or a word between two of them. Where standard error is no terminal,
    stages that are long get a line each, and others none.
    """

    def __init__(self, delay: float = DELAY) -> None:
        self._delay = delay
        self._visible = sys.stderr.isatty()
        self._began: dict[str, float] = {}
        self._rich: Rich | None = None
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._rich:
            self._rich.stop()
            interrupt.last_words = b"\n"

    def download(self, done: int, total: int) -> None:
        then = "checking what was fetched"
        self.count("fetching the model", "MB", done / 1e6, total / 1e6, then=then, long=True)

    def compile(self, done: int, total: int, name: str) -> None:
        self.count("compiling kernels, once", "kernels", done, total, then="loading the model", long=True)

    def weights(self, done: int, total: int) -> None:
        self.count("loading weights", "MB", done / 1e6, total / 1e6, then="loading the model")

    def say(self, what: str) -> None:
        """Show what goes on now and can't be measured, if anything was shown before."""
        if self._rich:
            self._draw(self._rich, what)

    def count(
        self, stage: str, unit: str, done: float, total: float, *, then: str = "", long: bool = False
    ) -> None:
        """How far a stage is, and what goes on `then`. One that is `long` is shown from its start."""
        now = time.monotonic()
        first = stage not in self._began
        waited = now - self._began.setdefault(stage, now) >= self._delay
        if not self._visible:
            if long and first and not 0 < total <= done:
                streams.complain(f"assay: {stage}" + (f", {total:.0f} {unit}" if total else ""))
            return
        if not (waited or long or stage == self._stage):
            return
        if total and done >= total:
            del self._began[stage]
            self.say(then)
            return
        if self._rich is None:
            self._rich = self._start()
        figures = f"{done:.0f} of {total:.0f} {unit}" if total else f"{done:.0f} {unit}"
        self._draw(self._rich, stage, done, total, figures)

    def _draw(self, rich: Rich, stage: str, done: float = 0.0, total: float = 0.0, figures: str = "") -> None:
        if stage != self._stage:
            for task in rich.task_ids:
                rich.remove_task(task)
            # A task is drawn as soon as it is added, so it has its total from the start.
            rich.add_task(stage, total=total or None, figures=figures)
            self._stage = stage
        rich.update(rich.task_ids[0], completed=done, total=total or None, figures=figures)

    def _start(self) -> Rich:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        texts = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[figures]}")
        console = Console(stderr=True)  # what is printed still goes to standard output
        rich = Progress(*texts, TimeElapsedColumn(), console=console, transient=True, redirect_stdout=False)
        interrupt.last_words = b"\x1b[?25h\n"
        rich.start()
        return rich

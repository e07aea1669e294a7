"""Progress bars on standard error."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Self

from assay.cli import interrupt
from assay.load import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Rich
    from rich.progress import TaskID

DELAY = 0.3
"""Seconds that a stage must last before it is shown: a quick one isn't worth rich's import.

A download and a compilation always are.
"""


class Bars(Progress):
    """One line for what `load` is at: a bar, or a word between two of them. Silent when standard error is no
    terminal.
    """

    def __init__(self, delay: float = DELAY) -> None:
        self._delay = delay
        self._visible = sys.stderr.isatty()
        self._began: dict[str, float] = {}
        self._rich: Rich | None = None
        self._stage = ""
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._rich:
            self._rich.stop()
            interrupt.hide_cursor(False)

    def download(self, done: int, total: int) -> None:
        then = "checking what was fetched"
        self._show("fetching the model", done / 1e6, total / 1e6, "MB", then=then, at_once=True)

    def compile(self, done: int, total: int, name: str) -> None:
        self._show("compiling kernels, once", done, total, "kernels", then="loading the model", at_once=True)

    def weights(self, done: int, total: int) -> None:
        self._show("loading weights", done / 1e6, total / 1e6, "MB", then="loading the model")

    def evaluate(self, done: int, total: int) -> None:
        """Windows of a text that are scored."""
        self._show("scoring the text", done, total, "windows", then="")

    def quantise(self, done: int, total: int) -> None:
        """A file's tensors that are rounded."""
        self._show("quantising", done, total, "tensors", then="checking the file")

    def say(self, what: str) -> None:
        """Show what goes on now and can't be measured, if anything was shown before."""
        if self._rich:
            self._draw(self._rich, what)

    def _show(
        self, stage: str, done: float, total: float, unit: str, *, then: str, at_once: bool = False
    ) -> None:
        if not self._visible:
            return
        now = time.monotonic()
        waited = now - self._began.setdefault(stage, now) >= self._delay
        if not (waited or at_once or stage == self._stage):
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
        if stage != self._stage or self._task is None:
            # A task is drawn as soon as it is added, so it has its total from the start.
            if self._task is not None:
                rich.remove_task(self._task)
            self._task = rich.add_task(stage, total=total or None, figures=figures)
            self._stage = stage
        rich.update(self._task, completed=done, total=total or None, figures=figures)

    def _start(self) -> Rich:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Rich

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
        )
        rich = Rich(*columns, console=Console(stderr=True), transient=True)
        interrupt.hide_cursor(True)
        rich.start()
        return rich

"""Progress bars on standard error."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from assay.load import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as Rich
    from rich.progress import TaskID

DELAY = 0.3
"""Seconds that a stage must last before it is shown: a quick one isn't worth rich's import.

A compilation always is.
"""


class Bars(Progress):
    """Bars for what `load` tells, one for each stage. Silent when standard error is no terminal."""

    def __init__(self, delay: float = DELAY) -> None:
        self._delay = delay
        self._visible = sys.stderr.isatty()
        self._began: dict[str, float] = {}
        self._rich: Rich | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._rich:
            self._rich.stop()

    def download(self, done: int, total: int) -> None:
        self._show("fetching the model", done / 1e6, total / 1e6, "MB")

    def compile(self, done: int, total: int, name: str) -> None:
        self._show("compiling kernels, once", done, total, "kernels", at_once=True)

    def weights(self, done: int, total: int) -> None:
        self._show("loading weights", done / 1e6, total / 1e6, "MB")

    def _show(self, stage: str, done: float, total: float, unit: str, at_once: bool = False) -> None:
        if not self._visible:
            return
        now = time.monotonic()
        waited = now - self._began.setdefault(stage, now) >= self._delay
        if not (waited or at_once or stage in self._tasks):
            return
        if self._rich is None:
            self._rich = self._start()
        if stage not in self._tasks:
            self._tasks[stage] = self._rich.add_task(stage, unit=unit)
        self._rich.update(self._tasks[stage], completed=done, total=total or None)
        if total and done >= total:
            self._rich.remove_task(self._tasks.pop(stage))
            del self._began[stage]

    def _start(self) -> Rich:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Rich

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f} {task.fields[unit]}"),
            TimeElapsedColumn(),
        )
        rich = Rich(*columns, console=Console(stderr=True), transient=True)
        rich.start()
        return rich

"""What models of all kinds have that `assay.load` makes."""

from __future__ import annotations

from collections.abc import Mapping
from threading import RLock
from typing import Self

from assay.graph.graph import Graph
from assay.runtime.cpu import Cpu

Details = Mapping[str, object]


class Loaded:
    """A loaded model. `context` is the most tokens of one sequence: of a prompt and its answer together.

    `close`, or leaving a `with` block, lets the threads go.
    """

    def __init__(self, graph: Graph, device: Cpu, context: int, details: Details) -> None:
        self.graph, self.context, self.details = graph, context, details
        self._device = device

    @property
    def _lock(self) -> RLock:
        return self._device.lock

    def __repr__(self) -> str:
        name, threads = type(self).__name__, self._device.team.nthreads
        return f"{name}({self.graph.name!r}, context={self.context}, threads={threads})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the team's threads go. A call that comes later starts them again."""
        with self._lock:
            self._device.close()

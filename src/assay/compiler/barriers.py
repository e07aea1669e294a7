"""Where a tape's threads wait for each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.graph.dim import Dim

Rows = Mapping[str, Dim | None]
"""Values, each with the dimension that the threads divide if each keeps to its share of the value's first
axis; None where any thread may touch any of it.
"""


@dataclass(frozen=True)
class Touched:
    """The values that a launch reads, and those that it writes."""

    reads: Rows
    writes: Rows


def barriers(launches: Sequence[Touched], aliases: Mapping[str, str]) -> list[bool]:
    """Whether a barrier comes before each launch.

    It waits for all before it when it reads, or changes in place, what they write or read since the last
    barrier; but what each thread has to itself, because both divide the value by the same rows, it needs no
    other thread for. `aliases` maps the names of changed states to the states.
    """
    found = []
    written: dict[str, Dim | None] = {}
    read: dict[str, Dim | None] = {}

    def clashes(before: Rows, touched: Rows) -> bool:
        memory = ((aliases.get(name, name), rows) for name, rows in touched.items())
        return any(name in before and (rows is None or before[name] != rows) for name, rows in memory)

    for launch in launches:
        changed = {name: rows for name, rows in launch.writes.items() if name in aliases}
        barrier = clashes(written, launch.reads) or clashes(written, changed) or clashes(read, changed)
        if barrier:
            written, read = {}, {}
        for before, touched in ((written, launch.writes), (read, launch.reads)):
            for name, rows in touched.items():
                touch(before, aliases.get(name, name), rows)
        found.append(barrier)
    return found


def touch(values: dict[str, Dim | None], name: str, rows: Dim | None) -> None:
    """Add a value; touched by several kinds of rows it is anyone's, so that whoever comes next waits."""
    values[name] = rows if values.get(name, rows) == rows else None

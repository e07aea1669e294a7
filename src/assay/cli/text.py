"""What is found as lines for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest


def table(rows: Iterable[Sequence[object]], left: int = 1) -> Iterator[str]:
    """Rows in columns: the first `left` begin at one place in each line, the others end at one. Of a float 6
    digits are shown, here and below.
    """
    cells = [[_short(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    for row in cells:
        padded = (
            cell.ljust(width) if index < left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        yield "  ".join(padded).rstrip()


def figures(found: Mapping[str, object]) -> Iterator[str]:
    """Named figures, a line each; those of a group, and of a list's items, a row each, below its name."""
    for name, value in found.items():
        title = name.replace("_", " ")
        if isinstance(value, Mapping):
            yield f"{title}:"
            yield from table(((f"  {key.replace('_', ' ')}", item) for key, item in value.items()), left=2)
        elif isinstance(value, list) and value:
            yield f"{title}:"
            rows = [[key.replace("_", " ") for key in value[0]], *(item.values() for item in value)]
            yield from (f"  {line}" for line in table(rows))
        else:
            yield f"{title}: {'none' if value == [] else _short(value)}"


def _short(figure: object) -> str:
    return f"{figure:.6g}" if isinstance(figure, float) else str(figure)

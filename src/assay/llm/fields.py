"""Fields that callers fill in, held to their ranges."""

from __future__ import annotations

from assay.errors import RequestError, shown


def integer(name: str, value: object, low: int, high: int) -> None:
    """Raises RequestError, naming the field, unless `value` is an int from `low` to `high`. A bool isn't."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RequestError(
            "a field is out of range", place=name, want=f"an integer from {low} to {high}", got=shown(value)
        )


def number(name: str, value: object, low: float, high: float, *, above: bool = False) -> None:
    """Raises RequestError, naming the field, unless `value` is a number from (or `above`) `low` to `high`."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
    if not fits or (above and value == low):
        wanted = f"a number {'above' if above else 'from'} {low:g} {'and up to' if above else 'to'} {high:g}"
        raise RequestError("a field is out of range", place=name, want=wanted, got=shown(value))

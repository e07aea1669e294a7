"""Named values of a file, each held to what it may be: keys of GGUF, fields of a JSON object."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar, cast

import numpy as np

from assay.errors import FormatError, shown
from assay.formats.tensors import near, quoted

T = TypeVar("T")

LEAST_NORMAL, GREATEST = 2.0**-126, 2.0**127
"""Of float32."""


class Fields:
    """Values by name, and where they are from. One that is null counts as missing.

    All methods raise FormatError, naming the field, for values that are missing, of another type or out of
    range. A missing one gives the default, where there is one.
    """

    noun = "field"
    numeric: tuple[type[int] | type[float], ...] = (int, float)

    def __init__(self, values: Mapping[str, object], place: str, prefix: str = "") -> None:
        """`prefix` begins the names of all values that are asked for."""
        self.values, self.place, self.prefix = values, place, prefix
        self.asked: set[str] = set()
        """The whole names of all values that were asked for."""

    def __contains__(self, name: str) -> bool:
        return self._get(name) is not None

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An int from `low` to `high`."""
        want = f"an integer from {low} to {high}"
        return self._held(name, want, (int,), lambda value: low <= value <= high, default)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A float from `low` to `high`."""
        want = f"a number from {low:g} to {high:g}"
        return float(self._held(name, want, self.numeric, lambda value: low <= value <= high, default))

    def choice(self, name: str, choices: Collection[str], default: str | None = None) -> str:
        """One of these strings."""
        return self._held(name, " or ".join(choices), (str,), choices.__contains__, default, choices)

    def text(self, name: str, default: str | None = None) -> str:
        """A string."""
        return self._held(name, "a string", (str,), lambda _: True, default)

    def flag(self, name: str, default: bool = False) -> bool:
        """A bool."""
        return self._held(name, "true or false", (bool,), lambda _: True, default)

    def neutral(self, name: str, value: str | int | float) -> None:
        """A value that may be missing, and if it is there is this one, which changes nothing."""
        found, kinds = self._get(name), self.numeric if isinstance(value, float) else (type(value),)
        if found is not None and (type(found) not in kinds or found != value):
            raise self.error(name, str(value), found, "a value that isn't supported")

    def error(self, name: str, want: str, got: object = None, rule: str = "", hint: str = "") -> FormatError:
        """An error about a value."""
        if got is None:
            rule, hint = rule or f"a {self.noun} is missing", hint or near(self.prefix + name, self.values)
        place = f"{self.place} › {self._at(name)}".removeprefix(" › ")
        rule = rule or f"a {self.noun} is out of range"
        return FormatError(rule, place=place, want=want, got=_told(got), hint=hint)

    def _at(self, name: str) -> str:
        return name

    def _get(self, name: str) -> object:
        self.asked.add(self.prefix + name)
        return self.values.get(self.prefix + name)

    def _held(
        self,
        name: str,
        want: str,
        kinds: tuple[type, ...],
        sound: Callable[[T], bool],
        default: T | None,
        choices: Collection[str] = (),
    ) -> T:
        value = cast(T, self._get(name))
        if value is None and default is not None:
            return default
        if type(value) not in kinds or not sound(value):
            raise self.error(name, want, value, hint=near(value, choices) if isinstance(value, str) else "")
        return value


class Keys(Fields):
    """Keys of a GGUF file, where a whole number is no float."""

    noun = "key"
    numeric = (float,)

    def _at(self, name: str) -> str:
        return f"key {quoted(self.prefix + name)}"


class Config(Fields):
    """A JSON object, which may hold others."""

    def choices(self, name: str, choices: tuple[str, ...], count: int) -> list[str] | None:
        """A list of `count` of these strings; None where the field is missing."""
        want = f"{count} of {', '.join(choices)}"
        return self._list(name, want, range(count, count + 1), choices.__contains__) if name in self else None

    def integers(self, name: str, counts: range, high: int) -> list[int]:
        """A list of so many integers from 0 to `high`."""
        want = f"{' to '.join(map(str, sorted({counts[0], counts[-1]})))} integers from 0 to {high}"
        return self._list(name, want, counts, lambda value: type(value) is int and 0 <= value <= high)

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """A list of `count` positive numbers, rounded to float32."""
        found: list[object] = self._list(name, f"{count} numbers", range(count, count + 1), lambda _: True)
        within = Config(dict(zip(map(str, range(count)), found, strict=True)), f"{self.place} › {name}")
        return tuple(rounded(within.number(str(n), LEAST_NORMAL, GREATEST)) for n in range(count))

    def inner(self, name: str) -> Config | None:
        """An object within; None where the field is missing."""
        return self.require(name) if name in self else None

    def require(self, name: str) -> Config:
        """An object within."""
        fields: dict[str, object] = self._held(name, "an object", (dict,), lambda _: True, None)
        return Config(fields, f"{self.place} › {name}")

    def _list(self, name: str, want: str, counts: range, sound: Callable[[T], bool]) -> list[T]:
        def whole(found: list[T]) -> bool:
            return len(found) in counts and all(map(sound, found))

        return self._held(name, want, (list,), whole, None)


def rounded(value: float) -> float:
    """The nearest float32."""
    return float(np.float32(value))


def _told(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return "nothing" if value is None else quoted(value) if isinstance(value, str) else shown(value)

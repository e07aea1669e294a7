"""The fields of a Hugging Face config.json, each held to what it may be."""

from __future__ import annotations

import math
from collections.abc import Mapping

from assay.errors import FormatError
from assay.formats.strict_json import JsonValue
from assay.formats.tensors import quoted
from assay.models.shape import GREATEST, LEAST_NORMAL, rounded


class Config:
    """A JSON object and where it is from. A field that is null counts as missing.

    All methods raise FormatError, naming the field, for values of another type or out of range.
    """

    def __init__(self, fields: Mapping[str, JsonValue], place: str) -> None:
        self._fields, self._place = fields, place

    def has(self, name: str) -> bool:
        """Whether the field is there."""
        return self._fields.get(name) is not None

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An int from `low` to `high`; the default where the field is missing."""
        if default is not None and not self.has(name):
            return default
        value = self._value(name, None)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, f"an integer from {low} to {high}", value)
        return value

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A float from `low` to `high`; the default where the field is missing."""
        value = self._value(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise self.error(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def choice(self, name: str, choices: tuple[str, ...], default: str | None = None) -> str:
        """One of these strings."""
        value = self._value(name, default)
        if not isinstance(value, str) or value not in choices:
            raise self.error(name, " or ".join(choices), value)
        return value

    def text(self, name: str) -> str:
        """A string."""
        value = self._value(name, None)
        if not isinstance(value, str):
            raise self.error(name, "a string", value)
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._value(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "true or false", value)
        return value

    def choices(self, name: str, choices: tuple[str, ...], count: int) -> list[str] | None:
        """A list of `count` of these strings; None where the field is missing."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) != count or any(each not in choices for each in value):
            raise self.error(name, f"{count} of {', '.join(choices)}", value)
        return [str(each) for each in value]

    def numbers(self, name: str, count: int) -> tuple[float, ...]:
        """A list of `count` positive numbers, rounded to float32."""
        found = self._fields.get(name)
        if not isinstance(found, list) or len(found) != count:
            raise self.error(name, f"{count} numbers", "something else")
        within = Config(dict(zip(map(str, range(count)), found, strict=True)), f"{self._place} › {name}")
        return tuple(rounded(within.number(str(n), LEAST_NORMAL, GREATEST)) for n in range(count))

    def inner(self, name: str) -> Config | None:
        """An object within; None where the field is missing."""
        value = self._fields.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, "an object", value)
        return Config(value, f"{self._place} › {name}")

    def require(self, name: str) -> Config:
        """An object within."""
        found = self.inner(name)
        if found is None:
            raise self.error(name, "an object", None)
        return found

    def neutral(self, name: str, value: bool | int | float) -> None:
        """A field that may be missing, and if it is there has this value, which changes nothing."""
        found = self._value(name, value)
        if found != value:
            raise self.error(name, str(value), found, "a value that isn't supported")

    def error(
        self, name: str, want: str, got: JsonValue, rule: str = "a field is out of range"
    ) -> FormatError:
        """An error about a field."""
        shown = quoted(got) if isinstance(got, str) else "nothing" if got is None else str(got)[:80]
        return FormatError(rule, place=f"{self._place} › {name}", want=want, got=shown)

    def _value(self, name: str, default: JsonValue) -> JsonValue:
        value = self._fields.get(name)
        value = default if value is None else value
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(name, "a finite number", value)
        return value

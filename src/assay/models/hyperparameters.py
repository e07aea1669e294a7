"""The keys in which a GGUF file says what a model's shape is, each held to what it may be."""

from __future__ import annotations

import math

import numpy as np

from assay.errors import FormatError
from assay.formats.gguf import GgufFile
from assay.formats.inventory import Wanted, hold
from assay.formats.quant import dequantise
from assay.formats.tensors import near, quoted
from assay.models.decoder import VECTORS


class Hyperparameters:
    """The keys `architecture.…` of a file. Every key must be asked for: `finish` refuses those that weren't.

    `tensors` are those that were read as parameters. All methods raise FormatError, naming the key, for
    values of another type or out of range.
    """

    def __init__(self, file: GgufFile, architecture: str) -> None:
        self.file = file
        self.tensors: set[str] = set()
        self._prefix = f"{architecture}."
        self._known: set[str] = set()

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An int from `low` to `high`; the default where the key is missing."""
        key = self._key(name)
        if default is not None and key not in self.file.metadata:
            return default
        value = self.file.expect(key, int)
        if not low <= value <= high:
            raise self.error(name, f"an integer from {low} to {high}", value)
        return value

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A float from `low` to `high`; the default where the key is missing."""
        key = self._key(name)
        if default is not None and key not in self.file.metadata:
            return default
        value = self.file.expect(key, float)
        if not (math.isfinite(value) and low <= value <= high):
            raise self.error(name, f"a number from {low:g} to {high:g}", value)
        return value

    def choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """One of these strings; the default where the key is missing."""
        value = self.file.expect(self._key(name), str, default)
        if value not in choices:
            raise self.error(name, " or ".join(choices), quoted(value))
        return value

    def aside(self, *prefixes: str) -> None:
        """Keys that begin so change nothing: they are about a part that isn't run, or about the past."""
        own = tuple(self._prefix + prefix for prefix in prefixes)
        self._known.update(key for key in self.file.metadata if key.startswith(own))

    def vector(self, tensor: str, size: int, required: bool) -> tuple[float, ...]:
        """The positive numbers of a small tensor, none where the file hasn't got it and needn't."""
        if tensor not in self.file.tensors and not required:
            return ()
        info = self.file.tensor(tensor)
        hold({tensor: info}, {tensor: Wanted((size,), VECTORS)}, str(self.file.path))
        values = dequantise(self.file.raw(tensor), info.dtype, info.shape)
        if not (np.isfinite(values) & (values > 0)).all():
            place = f"{self.file.path} › tensor {quoted(tensor)}"
            raise FormatError("a number is out of range", place=place, want="positive, finite numbers")
        self.tensors.add(tensor)
        return tuple(values.tolist())

    def neutral(self, name: str, value: str | int | float | bool) -> None:
        """A key that may be left out, and if it is there has this value, which changes nothing."""
        found = self.file.expect(self._key(name), type(value), value)
        if found != value:
            got = quoted(found) if isinstance(found, str) else found
            raise self.error(name, str(value), got, "a value that isn't supported")

    def finish(self) -> None:
        """Raises FormatError for a key that nobody asked for: it may change what the model computes."""
        for key in self.file.metadata:
            if key.startswith(self._prefix) and key not in self._known:
                close = near(key, sorted(self._known - self.file.metadata.keys()))
                raise FormatError(
                    "a key that isn't known",
                    place=self._place(key),
                    want=f"keys whose meaning for {self._prefix[:-1]} is known",
                    got=quoted(key),
                    hint=close or "it may change what the model computes",
                )

    def error(
        self, name: str, want: str, got: str | float, rule: str = "a key is out of range"
    ) -> FormatError:
        """An error about a key."""
        return FormatError(rule, place=self._place(self._prefix + name), want=want, got=str(got))

    def _key(self, name: str) -> str:
        self._known.add(self._prefix + name)
        return self._prefix + name

    def _place(self, key: str) -> str:
        return f"{self.file.path} › key {quoted(key)}"

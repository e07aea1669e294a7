"""The keys `tokenizer.ggml.*` of a GGUF file, each held to its type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.formats.fields import Fields


class Keys(Fields):
    """Every method raises FormatError, which names the key, what came and what is supported."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        super().__init__(metadata, "", "tokenizer.ggml.")

    def error(self, name: str, want: str, got: object = None, rule: str = "", hint: str = "") -> FormatError:
        """What is wrong with a key."""
        return super().error(name, want, got, rule or "a tokenizer that can't be used", hint)

    def _at(self, name: str) -> str:
        return self.prefix + name

    def strings(self, key: str) -> list[str]:
        """An array of strings."""
        return cast(list[str], self._items(key, str, None, "a string"))

    def numbers(
        self, key: str, count: int, kind: type, sound: Callable[..., bool], want: str
    ) -> NDArray[np.float64]:
        """An array of one number per token, each a `kind` and `sound`."""
        items = self._items(key, kind, sound, want)
        if len(items) != count:
            raise self.error(key, f"{count:,} numbers, one per token", f"{len(items):,}")
        return np.array(items, np.float64)

    def raw(self, key: str) -> bytes:
        """An array of bytes."""
        value = self._get(key)
        if not isinstance(value, np.ndarray) or value.dtype.itemsize != 1:
            raise self.error(key, "an array of bytes", value)
        return value.tobytes()

    def token_id(self, key: str, count: int) -> int | None:
        """A token of `count`, or None."""
        return self.integer(key, 0, count - 1) if key in self else None

    def _items(self, key: str, kind: type, sound: Callable[..., bool] | None, want: str) -> list[object]:
        value = self._get(key)
        items = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
        if not isinstance(items, list | tuple):
            raise self.error(key, "an array", value)
        if set(map(type, items)) != {kind} or (sound and not all(map(sound, set(items)))):
            for number, item in enumerate(items):
                if type(item) is not kind or (sound and not sound(item)):
                    raise self.error(f"{key}[{number}]", want, item)
        return list(items)

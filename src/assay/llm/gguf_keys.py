"""The keys `tokenizer.ggml.*` of a GGUF file, each held to its type."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from typing import cast

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError


class Keys:
    """Every method raises FormatError, which names the key, what came and what is supported."""

    def __init__(self, metadata: Mapping[str, object]) -> None:
        self._metadata = metadata

    def __contains__(self, key: str) -> bool:
        return self._value(key) is not None

    def error(self, key: str, want: str, got: str, hint: str = "") -> FormatError:
        """What is wrong with `key`."""
        rule, place = "a tokenizer that can't be used", f"tokenizer.ggml.{key}"
        return FormatError(rule, place=place, want=want, got=got, hint=hint)

    def choice(self, key: str, supported: Collection[str]) -> str:
        """One of the `supported` names; an unknown one is told its neighbours."""
        value = self._value(key)
        if isinstance(value, str) and value in supported:
            return value
        near = get_close_matches(value, supported, n=3) if isinstance(value, str) else []
        hint = f"names like it: {', '.join(near)}" if near else ""
        raise self.error(key, " | ".join(supported), _shown(value), hint)

    def flag(self, key: str, default: bool = False) -> bool:
        """A bool; `default` where the file has no such key."""
        value = self._value(key)
        if value is not None and not isinstance(value, bool | np.bool_):
            raise self.error(key, "a bool", _shown(value))
        return default if value is None else bool(value)

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

    def token_id(self, key: str, count: int) -> int | None:
        """A token of `count`, or None."""
        value = self._value(key)
        if value is None:
            return None
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < count:
            raise self.error(key, f"a token id, 0 to {count - 1}", _shown(value))
        return operator.index(value)

    def _items(self, key: str, kind: type, sound: Callable[..., bool] | None, want: str) -> list[object]:
        value = self._value(key)
        items = value.tolist() if isinstance(value, np.ndarray) and value.ndim == 1 else value
        if not isinstance(items, list | tuple):
            raise self.error(key, "an array", _shown(value))
        if set(map(type, items)) != {kind} or (sound and not all(map(sound, set(items)))):
            for number, item in enumerate(items):
                if type(item) is not kind or (sound and not sound(item)):
                    raise self.error(f"{key}[{number}]", want, _shown(item))
        return list(items)

    def _value(self, key: str) -> object:
        return self._metadata.get(f"tokenizer.ggml.{key}")


def _shown(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:200]

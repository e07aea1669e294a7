"""A cursor over the header of a GGUF file. Every length is held against the file before it is believed.

The header is read through a window with `pread`, never through a mapping, so that a file which shrinks under
us is a FormatError and not a signal, and so that no page of tensor data is touched.
"""

from __future__ import annotations

import os
import struct

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError
from assay.formats import gguf_types as types
from assay.formats.gguf_types import MetadataValue

WINDOW = 1 << 20

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_LENGTH_BYTES = 8
_AREA = 1 << 16
"""Bytes that `_plain_strings` looks at in one go: its temporary arrays stay in the cache."""
_RUN = 512
"""Strings read singly after such a go, and eight times as many after one in vain, which bounds their cost."""


class Cursor:
    """A cursor over the file. `place` says what is being read, for the errors."""

    def __init__(self, fd: int, size: int) -> None:
        self.place = ""
        self.size = size
        self._fd = fd
        self._base = 0
        self._window = b""
        self._at = 0
        self._strings_left = types.STRING_LIMIT
        self._arrays_left = types.ENTRY_LIMIT

    @property
    def offset(self) -> int:
        return self._base + self._at

    def error(self, rule: str, *, want: str = "", got: str = "", hint: str = "") -> FormatError:
        return FormatError(rule, place=self.place, want=want, got=got, hint=hint)

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        if length > len(self._window) - self._at:
            self._refill(length)
        start = self._at
        self._at += length
        return self._window[start : self._at]

    def _refill(self, length: int) -> None:
        end = self.offset + length
        if end > self.size:
            want, got = f"{length} bytes at byte {self.offset}", f"a file of {self.size} bytes"
            hint = "the file is cut short or damaged: fetch it again"
            raise self.error("the file ends inside its header", want=want, got=got, hint=hint)
        if end > types.HEADER_LIMIT:
            want, got = f"at most {types.HEADER_LIMIT} bytes", f"at least {end} bytes"
            raise self.error("the header is too long", want=want, got=got)
        rest = self._window[self._at :]
        new = os.pread(self._fd, max(length - len(rest), WINDOW), self.offset + len(rest))
        if len(rest) + len(new) < length:
            got = f"no more than {self.offset + len(rest) + len(new)} bytes"
            raise self.error("the file was cut short while it was read", want=f"{self.size} bytes", got=got)
        self._base, self._window, self._at = self.offset, rest + new, 0

    def u32(self) -> int:
        value: int = _U32.unpack(self.take(4))[0]
        return value

    def u64(self) -> int:
        value: int = _U64.unpack(self.take(8))[0]
        return value

    def count(self, what: str, *, each: int, limit: int) -> int:
        """A count of things of at least `each` bytes, no more than the rest of the file can hold."""
        count = self.u64()
        room = (self.size - self.offset) // each
        if count > min(room, limit):
            rule = f"more {what} than the file can hold" if count > room else f"too many {what}"
            raise self.error(rule, want=f"at most {min(room, limit)}", got=str(count))
        return count

    def string(self) -> str:
        """One string. Its length is checked by `take`, before anything is allocated."""
        return self._text(self.take(self.u64()))

    def name(self) -> str:
        length = self.u64()
        if length > types.NAME_LIMIT:
            raise self.error("a name is too long", want=f"at most {types.NAME_LIMIT} bytes", got=str(length))
        return self._text(self.take(length))

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self._not_text(error) from None

    def _not_text(self, error: UnicodeDecodeError, index: int | None = None) -> FormatError:
        bad = error.object[error.start : error.start + 4].hex(" ")
        where = "" if index is None else f"string {index}: "
        return self.error(
            "a string is not UTF-8", want="UTF-8", got=f"{where}bytes {bad} at its byte {error.start}"
        )

    def value(self, code: int, depth: int = 0) -> MetadataValue:
        """A metadata value of the given type."""
        if code == types.STRING:
            return self.string()
        if code == types.ARRAY:
            return self._array(depth + 1)
        dtype = types.SCALARS.get(code)
        if dtype is None:
            raise self.error("an unknown type of value", want="a value type from 0 to 12", got=str(code))
        value: bool | int | float = self._numbers(code, dtype, 1)[0].item()
        return value

    def _array(self, depth: int) -> MetadataValue:
        if depth > types.DEPTH_LIMIT:
            raise self.error(
                "arrays are nested too deep", want=f"at most {types.DEPTH_LIMIT} levels", got=f"{depth}"
            )
        code = self.u32()
        if code == types.STRING:
            return self._strings()
        if code == types.ARRAY:
            count = self.count("arrays", each=12, limit=self._arrays_left)
            self._arrays_left -= count
            return tuple(self._array(depth + 1) for _ in range(count))
        dtype = types.SCALARS.get(code)
        if dtype is None:
            raise self.error(
                "an unknown type of array element", want="a value type from 0 to 12", got=str(code)
            )
        count = self.count("elements", each=dtype.itemsize, limit=types.HEADER_LIMIT)
        return self._numbers(code, dtype, count)

    def _numbers(self, code: int, dtype: np.dtype[np.generic], count: int) -> npt.NDArray[np.generic]:
        raw = self.take(count * dtype.itemsize)
        if code == types.BOOL and raw.strip(b"\0\1"):
            raise self.error("a bool is neither 0 nor 1", want="bytes 0 or 1", got=f"byte {max(raw)}")
        return np.frombuffer(raw, dtype, count)

    def _strings(self) -> tuple[str, ...]:
        """An array of strings: 100,000 of them in a real vocabulary, nearly all plain."""
        count = self.count("strings", each=_LENGTH_BYTES, limit=self._strings_left)
        self._strings_left -= count
        strings: list[str] = []
        try:
            while len(strings) < count:
                plain, self._at = _plain_strings(self._window, self._at, count - len(strings))
                strings += plain
                run = _RUN if plain else 8 * _RUN
                self._append_strings(strings, min(count, len(strings) + run))
        except UnicodeDecodeError as error:
            raise self._not_text(error, len(strings)) from None
        return tuple(strings)

    def _append_strings(self, strings: list[str], count: int) -> None:
        """Strings of any kind one by one, until there are `count`."""
        append, length_at = strings.append, _U64.unpack_from
        window, at, size = self._window, self._at, len(self._window)
        while len(strings) < count:
            start = at + _LENGTH_BYTES
            end = start + length_at(window, at)[0] if start <= size else size + 1
            if end <= size:
                append(window[start:end].decode())
                at = end
            else:
                self._at = at
                append(self.take(self.u64()).decode())
                window, at, size = self._window, self._at, len(self._window)
        self._at = at


def _plain_strings(window: bytes, at: int, count: int) -> tuple[list[str], int]:
    """Up to `count` strings from `at` on, all at once, and where they end; none if the bytes aren't plain.

    Plain means 1 to 255 bytes without a NUL: a length is then one byte and seven NULs, and no others occur.
    The lengths found by that sign must also lead from one to the next, so what is returned is exact.
    """
    area = np.frombuffer(window, np.uint8)[at : at + _AREA]
    if len(area) < _LENGTH_BYTES:
        return [], at
    zero = area == 0
    two = zero[1:-1] & zero[2:]
    four = two[:-2] & two[2:]  # four[i]: the bytes i + 1 to i + 4 are NUL
    heads = np.flatnonzero(~zero[: len(four) - 3] & four[:-3] & four[3:])[:count]
    ends = heads + _LENGTH_BYTES + area[heads]
    sound = ends <= len(area)
    sound[:1] &= heads[:1] == 0
    sound[1:] &= heads[1:] == ends[:-1]
    known = len(heads) if sound.all() else int(sound.argmin())
    end = int(ends[known - 1]) if known else 0
    if np.count_nonzero(zero[:end]) != known * (_LENGTH_BYTES - 1):
        return [], at
    text = area[:end].copy()
    text[heads[:known]] = 0
    try:
        return text.tobytes().decode().split("\0" * _LENGTH_BYTES)[1:], at + end
    except UnicodeDecodeError:
        return [], at

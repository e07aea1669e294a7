"""A run of bytes with an owner's name, and NumPy views of it that keep it alive."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import RLock
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError

S = TypeVar("S", bound=np.generic)

# Makes "no view and not freed" one question. Nothing waits while holding it; garbage collection may re-enter.
_LOCK = RLock()


class Buffer:
    """`nbytes` bytes from `address` on, which belong to `owner`.

    They go back to where they came from when the buffer and all of its views are gone, or on `free()`.
    """

    __slots__ = ("__weakref__", "_give_back", "_span", "address", "nbytes", "owner", "writable")

    def __init__(
        self, address: int, nbytes: int, owner: str, give_back: Callable[[], None], *, writable: bool = True
    ) -> None:
        self.address = address
        self.nbytes = nbytes
        self.owner = owner
        self.writable = writable
        self._give_back = weakref.finalize(self, give_back)
        self._give_back.atexit = False
        self._span: weakref.ref[_Span] | None = None

    @classmethod
    def over(cls, array: NDArray[np.generic], owner: str) -> Buffer:
        """The memory of a C-contiguous array (ContractError), which the buffer keeps alive. No copy."""
        if not array.flags.c_contiguous:
            got = f"strides {array.strides} of shape {array.shape}"
            raise ContractError("memory with gaps", place=owner, want="a C-contiguous array", got=got)
        address: int = array.__array_interface__["data"][0]
        keep = [array]  # emptied when the buffer gives its bytes back: NumPy frees what nobody holds
        return cls(address, array.nbytes, owner, keep.clear, writable=array.flags.writeable)

    @property
    def freed(self) -> bool:
        return not self._give_back.alive

    def array(
        self,
        dtype: type[S] | np.dtype[S],
        shape: Sequence[int],
        *,
        offset: int = 0,
        strides: Sequence[int] | None = None,
    ) -> NDArray[S]:
        """A view of the bytes from `offset`, row-major or with `strides` in bytes; it keeps the buffer alive.

        Raises ContractError when the view would leave the buffer, or the buffer was freed.
        """
        with _LOCK:
            if self.freed:
                raise ContractError("use after free", place=self.owner, want="a live buffer", got=repr(self))
            span = self._span() if self._span else None
            if span is None:
                span = _Span(self)
                self._span = weakref.ref(span)
        try:
            if offset < 0:  # NumPy doesn't look
                raise ValueError(offset)
            return np.ndarray(tuple(shape), dtype, np.asarray(span).data, offset, strides and tuple(strides))
        except (TypeError, ValueError) as error:
            got = f"{np.dtype(dtype)}{list(shape)} with strides {strides} from byte {offset}"
            want = f"within {self.nbytes} bytes"
            raise ContractError("a view leaves its buffer", place=self.owner, want=want, got=got) from error

    def free(self) -> None:
        """Give the bytes back now. ContractError while views exist, and when they were given back already."""
        with _LOCK:
            viewed = self._span is not None and self._span() is not None
            if viewed or self.freed:
                rule = "freed while views exist" if viewed else "freed twice"
                hint = "drop the views first" if viewed else ""
                raise ContractError(rule, place=self.owner, want="no live view", got=repr(self), hint=hint)
            give_back = self._give_back.detach()
        if give_back:
            give_back[1]()

    def __repr__(self) -> str:
        state = ", freed" if self.freed else ""
        return f"Buffer({self.owner!r}, {self.nbytes} bytes at {self.address:#x}{state})"


class _Span:
    """What NumPy's views of one buffer hold on to: alive as long as any of them is."""

    __slots__ = ("__array_interface__", "__weakref__", "_buffer")

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "shape": (buffer.nbytes,),
            "typestr": "|u1",
            "data": (buffer.address, not buffer.writable),
        }

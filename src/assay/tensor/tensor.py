"""A tensor: what a number is (dtype), where each lies (layout) and in which memory (buffer)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from assay.errors import ContractError
from assay.tensor.buffer import Buffer
from assay.tensor.dtype import BF16, DType
from assay.tensor.layout import Layout, RowMajor, Shape


@dataclass(frozen=True)
class Tensor:
    """Elements of `dtype`, placed by `layout`, from byte `offset` of `buffer` on.

    Raises ContractError when the elements don't lie inside the buffer or aren't aligned to their own size, or
    when they are quantised and not RowMajor with rows of whole blocks.
    """

    dtype: DType
    layout: Layout
    buffer: Buffer
    offset: int = 0

    def __post_init__(self) -> None:
        if self.dtype.quantised:
            last = self.shape[-1] if self.shape else 1
            if not isinstance(self.layout, RowMajor) or last % self.dtype.block:
                want = f"RowMajor, the last dimension a multiple of {self.dtype.block}"
                raise self._broken("quantised rows that aren't whole blocks", want, str(self.layout))
        elif self.address % self.dtype.size:
            want = f"a multiple of {self.dtype.size} bytes"
            raise self._broken("misaligned elements", want, f"address {self.address:#x}")
        if self.offset < 0 or self.offset + self.nbytes > self.buffer.nbytes:
            got = f"{self.nbytes} bytes from byte {self.offset}"
            raise self._broken("a tensor leaves its buffer", f"within {self.buffer.nbytes} bytes", got)

    @classmethod
    def from_numpy(cls, array: NDArray[np.generic], dtype: DType, *, name: str = "array") -> Tensor:
        """The array's own memory as a RowMajor tensor of `dtype`; never a copy or a cast.

        Raises ContractError, with the call that would convert it, unless the array has exactly that dtype
        (bfloat16 comes as uint16 bits), native byte order, C-contiguous memory and aligned elements.
        """
        if dtype.quantised:
            rule = "quantised elements don't come from NumPy"
            want = "a plain dtype; Tensor(dtype, layout, Buffer.over(bytes, name)) for quantised blocks"
            raise ContractError(rule, place=name, want=want, got=str(dtype))
        plain = type(array) in (np.ndarray, np.memmap)
        if not plain or array.dtype != dtype.numpy or not array.flags.c_contiguous or not array.flags.aligned:
            rule, want = "an input would need a silent copy or cast", f"a NumPy array of {_described(dtype)}"
            hint = _conversion(array, dtype, name if name.isidentifier() else "x")
            got = _came(array)
            raise ContractError(rule, place=name, want=f"{want}, C-contiguous", got=got, hint=hint)
        return cls(dtype, RowMajor.of(array.shape), Buffer.over(array, name))

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def strides(self) -> Shape:
        """Elements from one position to the next along `layout.axes`."""
        return self.layout.strides

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.buffer.address + self.offset

    @property
    def nbytes(self) -> int:
        """Bytes of memory, padding included."""
        return self.dtype.nbytes(self.layout.size)

    def numpy(self) -> NDArray[np.generic]:
        """A view of the same memory, shaped as `layout.axes` (for Blocked: the grid, then the block).

        bfloat16 shows as uint16 bits; quantised rows show as their bytes. The view keeps the buffer alive.
        """
        if self.dtype.quantised:
            rows = (*self.shape[:-1], self.dtype.nbytes(self.shape[-1]))
            return self.buffer.array(self.dtype.numpy, rows, offset=self.offset)
        strides = [stride * self.dtype.size for stride in self.strides]
        return self.buffer.array(self.dtype.numpy, self.layout.axes, offset=self.offset, strides=strides)

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """The NumPy view's DLPack capsule. BufferError where NumPy's type or shape isn't the tensor's own."""
        if self.dtype == BF16 or self.dtype.quantised or self.layout.axes != self.shape:
            raise BufferError(f"DLPack can't carry {self.dtype} in {self.layout}; numpy() shows its memory")
        view = cast("NDArray[np.number]", self.numpy())
        return view.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """(1, 0): the CPU."""
        return self.numpy().__dlpack_device__()

    def _broken(self, rule: str, want: str, got: str) -> ContractError:
        place = f"{self.buffer.owner} ({self.dtype}{list(self.shape)})"
        return ContractError(rule, place=place, want=want, got=got)


def _described(dtype: DType) -> str:
    return "bfloat16 (bits as uint16)" if dtype == BF16 else dtype.name


def _came(array: object) -> str:
    """What a caller passed, in words."""
    if not isinstance(array, np.ndarray):
        return f"{type(array).__module__}.{type(array).__qualname__}"
    kind = "" if type(array) in (np.ndarray, np.memmap) else f"{type(array).__name__} of "
    order = "" if array.dtype.isnative else "byte-swapped "
    text = f"{kind}{order}{array.dtype.name}{list(array.shape)}"
    if not array.flags.c_contiguous:
        text += f" with strides of {list(array.strides)} bytes, not C-contiguous"
    return text if array.flags.aligned else f"{text}, misaligned"


def _conversion(array: object, dtype: DType, name: str) -> str:
    """The one call that makes of `array` what is wanted."""
    came = array.dtype if isinstance(array, np.ndarray) else None
    if dtype == BF16 and came != dtype.numpy:
        return f"round to bfloat16, then pass the bits: {name}.view(np.uint16)"
    if isinstance(array, np.ndarray) and not array.flags.aligned and came == dtype.numpy:
        return f"{name}.copy()"
    if isinstance(array, np.ndarray) and array.ndim == 0:
        return f"np.asarray({name}, dtype=np.{dtype.numpy.name})"
    return f"np.ascontiguousarray({name}, dtype=np.{dtype.numpy.name})"

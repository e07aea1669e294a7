"""What any device must do for the runtime.

Nothing is implicit: no copy, launch or wait happens but those called here.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray


class Memory(Protocol):
    """Bytes on a device. Only that device can tell what `address` means; a host pointer it need not be."""

    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def owner(self) -> str: ...

    def free(self) -> None:
        """Give the bytes back now. They also go back when nothing refers to them any more."""


M = TypeVar("M", bound=Memory)
W_contra = TypeVar("W_contra", contravariant=True)


class Device(Protocol[M, W_contra]):
    """A place that holds memory `M` and runs work `W`: what the compiler lowered for this kind of device.

    Copies and launches take effect in the order of the calls. Each may return before it has; after
    `synchronise()` all have. Failures are HardwareFault, raised by the call or by the next `synchronise()`.
    """

    @property
    def name(self) -> str:
        """What people call it, such as "cpu" or "cuda:0"."""

    def allocate(self, nbytes: int, *, owner: str, alignment: int = 64) -> M:
        """`nbytes` of undefined content at a multiple of `alignment`. HardwareFault when there is no room."""

    def copy_in(self, target: M, source: NDArray[np.generic], *, offset: int = 0) -> None:
        """Copy a C-contiguous array to byte `offset` of `target`. Leave `source` alone until synchronised."""

    def copy_out(self, target: NDArray[np.generic], source: M, *, offset: int = 0) -> None:
        """Fill a C-contiguous array from byte `offset` of `source`. It is valid once synchronised."""

    def launch(self, work: W_contra) -> None:
        """Start `work`, which names all memory it reads and writes and allocates none."""

    def synchronise(self) -> None:
        """Wait until everything called so far has taken effect."""

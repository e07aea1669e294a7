"""The device interface holds for a device unlike the CPU: late, with addresses that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.errors import HardwareFault
from assay.tensor.device import Device, M, W_contra
from assay.tensor.pool import Pool


@dataclass(frozen=True)
class Handle:
    """Memory of the stand-in: `address` is a ticket, not a pointer."""

    device: LateDevice
    address: int
    nbytes: int
    owner: str

    def free(self) -> None:
        del self.device.memory[self.address]


class LateDevice:
    """Does nothing before `synchronise()`."""

    name = "late:0"

    def __init__(self) -> None:
        self.memory: dict[int, bytearray] = {}
        self.pending: list[Callable[[], None]] = []

    def allocate(self, nbytes: int, *, owner: str, alignment: int = 64) -> Handle:
        if nbytes > 1024:
            raise HardwareFault("no room", place=owner)
        handle = Handle(self, len(self.memory), nbytes, owner)
        self.memory[handle.address] = bytearray(nbytes)
        return handle

    def copy_in(self, target: Handle, source: NDArray[np.generic], *, offset: int = 0) -> None:
        def copy() -> None:
            self.memory[target.address][offset : offset + source.nbytes] = source.tobytes()

        self.pending.append(copy)

    def copy_out(self, target: NDArray[np.generic], source: Handle, *, offset: int = 0) -> None:
        def copy() -> None:
            part = self.memory[source.address][offset : offset + target.nbytes]
            target[...] = np.frombuffer(part, target.dtype).reshape(target.shape)

        self.pending.append(copy)

    def launch(self, work: tuple[Handle, int]) -> None:
        def add() -> None:
            memory = self.memory[work[0].address]
            memory[:] = bytes(byte + work[1] for byte in memory)

        self.pending.append(add)

    def synchronise(self) -> None:
        for step in self.pending:
            step()
        self.pending.clear()


def through(
    device: Device[M, W_contra], array: NDArray[np.uint8], work: Callable[[M], W_contra]
) -> NDArray[np.uint8]:
    """What a runtime does with any device."""
    memory = device.allocate(array.nbytes, owner="x")
    result = np.zeros_like(array)
    device.copy_in(memory, array)
    device.launch(work(memory))
    device.copy_out(result, memory)
    device.synchronise()
    memory.free()
    return result


def test_the_interface_does_not_assume_the_cpu() -> None:
    device = LateDevice()
    result = through(device, np.arange(6, dtype=np.uint8).reshape(2, 3), lambda memory: (memory, 10))
    assert result.tolist() == [[10, 11, 12], [13, 14, 15]]
    assert not device.memory
    with pytest.raises(HardwareFault):
        device.allocate(2000, owner="too much")


def test_a_pools_buffer_is_device_memory() -> None:
    buffer = Pool(1 << 20).allocate(100, owner="x")
    assert (buffer.nbytes, buffer.owner, buffer.address % 64) == (100, "x", 0)
    buffer.free()

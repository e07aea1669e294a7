"""Flush-to-zero, set by whoever created a thread: the bits stay, and the caller finds its state again."""

from __future__ import annotations

import platform
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from assay.graph.graph import ValueType
from assay.kernels.call import call
from assay.ops import registry
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F32
from every_op.case import Case
from every_op.harness import Bench

X86 = platform.machine() in ("x86_64", "AMD64")
DEFAULT = 0x1F80 if X86 else 0
FLUSH = DEFAULT | 0x8040 if X86 else 1 << 24
"""Subnormal results become zeros, and subnormal operands too (FTZ and DAZ of MXCSR, FZ of FPCR)."""


def state() -> int:
    where = np.zeros(1, np.int64)
    call("runtime.float_kernels:get_state", where)
    return int(where[0]) & ~0x3F  # without the flags of what has happened


@pytest.fixture
def flushing() -> Iterator[None]:
    before = state()
    call("runtime.float_kernels:set_state", FLUSH)
    yield
    call("runtime.float_kernels:set_state", before)


def subnormal_case() -> Case:
    rng = np.random.default_rng(0)
    a = (rng.normal(0, 1, (40, 64)) * 1e-30).astype(np.float32)
    b = (rng.normal(0, 1, (40, 64)) * 1e-12).astype(np.float32)
    return Case((a, b), (ValueType.of(F32, 40, 64),) * 2)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    y = np.zeros(a.size, np.float32)
    call("runtime.float_kernels:multiply", a, b, y, a.size)
    return y.reshape(a.shape)


def test_the_state_really_flushes(flushing: None) -> None:
    """Or else the tests below would show nothing."""
    a, b = subnormal_case().inputs
    assert state() == FLUSH
    assert not product(a, b).any()


@pytest.mark.parametrize("threads", [1, 4])
def test_subnormals_survive_someone_elses_flush_to_zero(threads: int, flushing: None) -> None:
    """The state is set in the thread that starts the team, and so in its workers."""
    case = subnormal_case()
    call("runtime.float_kernels:set_state", DEFAULT)
    expected = case.inputs[0] * case.inputs[1]
    call("runtime.float_kernels:set_state", FLUSH)
    tiny = np.finfo(np.float32).smallest_normal
    device = Cpu(threads, capacity=1 << 24)
    (found,) = Bench(registry.get("mul"), case, device).run()
    assert state() == FLUSH, "the caller's state is restored"
    device.close()
    call("runtime.float_kernels:set_state", DEFAULT)
    assert ((np.abs(expected) < tiny) & (expected != 0)).mean() > 0.9
    assert np.array_equal(found, expected)


def test_a_caller_on_another_thread_that_flushes() -> None:
    case = subnormal_case()
    device = Cpu(3, capacity=1 << 24)
    bench = Bench(registry.get("mul"), case, device)
    (expected,) = bench.run()
    found: list[np.ndarray] = []

    def work() -> None:
        call("runtime.float_kernels:set_state", FLUSH)
        found.append(bench.run()[0])

    caller = threading.Thread(target=work)
    caller.start()
    caller.join()
    assert np.array_equal(found[0], expected) and expected.any()
    device.close()

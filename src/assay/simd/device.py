"""Functions that kernels call: compiled into them, never called from Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

_decorate = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", _nrt=False)


def device(function: F) -> F:
    """Compile `function` into the kernels that call it."""
    decorated: F = _decorate(function)
    return decorated

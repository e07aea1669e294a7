"""Functions that kernels call: compiled into them, never called from Python."""

from __future__ import annotations

from numba import njit

device = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", _nrt=False)
"""Compiles a function into the kernels that call it."""

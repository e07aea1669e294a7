"""The instruction set that kernels are compiled for, as Numba was told at its start."""

from __future__ import annotations

from functools import cache


@cache
def features() -> frozenset[str]:
    """Names of the features that the code generator may use, such as "avx2"."""
    from numba.core.registry import cpu_target

    text: str = cpu_target.target_context.codegen()._tm_features
    return frozenset(part[1:] for part in text.split(",") if part.startswith("+"))


def has_f16c() -> bool:
    return "f16c" in features()


def has_avx2() -> bool:
    return {"avx2", "fma"} <= features()


def has_vnni() -> bool:
    return "avx512vnni" in features()

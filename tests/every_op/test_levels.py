"""Machine code for every level of x86-64 processors: what it calls, which registers it uses, its results."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from assay.kernels import target
from assay.kernels.cache import objects
from assay.kernels.digest import symbol_of
from assay.kernels.panels import FORMATS
from assay.ops import registry
from every_op.elf import symbols
from every_op.harness import all_cases
from every_op.levels import Compiled, compiled, digests, kernel_names, runs

ALLOWED = frozenset(("fma", "fmaf", "memcpy", "memmove", "memset"))
"""What kernels may call (numerics.md, rule 3): exact, or no arithmetic."""
LEVELS = ("baseline", "avx2", "avx512")
CHILD = str(Path(__file__).with_name("digest_child.py"))
PRODUCTS = tuple(f"qgemm.{name}" for name in FORMATS)

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="levels are x86-64's; this is another machine"
)
every_level = pytest.mark.parametrize("level", LEVELS)


@cache
def code(level: str) -> Compiled:
    return compiled(level)


def test_all_kernels_are_found() -> None:
    names = set(kernel_names())
    wanted = {kernel.name for operator in registry.all_operators() for kernel in operator.kernels}
    assert wanted <= names
    assert {"team.lead", "team.work", "pack.q4_1", "pack.float16"} <= names


@every_level
def test_kernels_call_nothing_else(level: str) -> None:
    for name, path in code(level).objects.items():
        found = symbols(path.read_bytes())
        assert found.undefined <= ALLOWED, f"{name} for {level}"
        assert found.exported == {symbol_of(name)}, f"{name} for {level}"


def test_kernels_of_this_processor_call_nothing_else() -> None:
    wanted = {kernel.name for operator in registry.all_operators() for kernel in operator.kernels}
    for name, path in objects(sorted(wanted), target.host()).items():
        assert symbols(path.read_bytes()).undefined <= ALLOWED, name


def test_baseline_uses_its_own_registers_and_no_multiply_add() -> None:
    for name, listing in code("baseline").listings.items():
        assert listing.registers <= {"xmm"}, name
        assert not listing.multiply_adds, name
    assert all(code("baseline").listings[name].registers == {"xmm"} for name in PRODUCTS)
    assert all("pmaddwd" in code("baseline").listings[name].instructions for name in PRODUCTS)


def test_avx2_uses_no_wider_registers() -> None:
    for name, listing in code("avx2").listings.items():
        assert listing.registers <= {"xmm", "ymm"}, name
    for name in (*PRODUCTS, "gemm.float32", "attention.float16"):
        listing = code("avx2").listings[name]
        assert "ymm" in listing.registers and listing.multiply_adds, name


def test_avx512_uses_its_registers_and_dot_products() -> None:
    for name in PRODUCTS:
        listing = code("avx512").listings[name]
        assert "zmm" in listing.registers and "vpdpbusd" in listing.instructions, name
    assert "zmm" in code("avx512").listings["gemm.float32"].registers


@every_level
def test_no_estimates_and_nothing_that_saturates(level: str) -> None:
    """numerics.md, rule 6: no rcp, rsqrt, dot products of bfloat16; vpmaddubsw only of 6 bits at most."""
    for name, listing in code(level).listings.items():
        estimates = {word for word in listing.instructions if word.lstrip("v").startswith(("rcp", "rsqrt"))}
        assert not estimates, name
        assert not any("dpbf16" in word for word in listing.instructions), name
        # The probe of the machine's limit forms the same dots of nibbles as the products do.
        if level == "avx2" and name in (*PRODUCTS, "probe.dot"):
            continue
        assert not any("pmaddubsw" in word for word in listing.instructions), name


def test_every_width_gives_the_same_bits(tmp_path: Path) -> None:
    """All cases of all operators at each level that this processor has, and as it is."""
    for name, _, case in all_cases():
        np.savez(tmp_path / f"{name}.npz", *case.inputs)
    levels = ["host", *(level for level in LEVELS if runs(level))]
    for level in levels[1:]:
        code(level)
    found = {level: digests(level, CHILD, str(tmp_path)) for level in levels}
    assert len(found["host"]) == len(all_cases())
    for level in levels[1:]:
        different = [name for name in found["host"] if found[level][name] != found["host"][name]]
        assert not different, f"{level} and this processor differ"

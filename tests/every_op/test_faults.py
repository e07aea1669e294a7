"""Values outside their dtype's range are reported wherever they stand, and only they."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assay.errors import PrecisionOverflow
from assay.ops import registry
from assay.runtime.cpu import Cpu
from every_op.case import Case
from every_op.harness import Bench, cases

LARGEST = np.float32(65519.996)
"""The greatest float32 that rounds to a finite float16."""


def case_of(operator: str, name: str) -> Case:
    return next(case for case in cases(registry.get(operator)) if case.name.startswith(name))


def planted(case: Case, port: int, place: tuple[int, ...], value: float) -> Case:
    arrays = [array.copy() for array in case.inputs]
    arrays[port][place] = value
    return replace(case, inputs=tuple(arrays))


def is_reported(operator: str, case: Case, device: Cpu) -> bool:
    bench = Bench(registry.get(operator), case, device)
    try:
        bench.run()
    except PrecisionOverflow as error:
        assert error.place == f'{operator} › node "node" ({operator})'
        return True
    return False


@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 31), (1, 15), (1, 16), (2, 575)])
def test_quantize_reports_what_is_not_finite(
    value: float, place: tuple[int, int], devices: dict[int, Cpu]
) -> None:
    case = case_of("quantize", "3×576")
    assert not is_reported("quantize", case, devices[3])
    assert is_reported("quantize", planted(case, 0, place, value), devices[3])


@pytest.mark.parametrize("port", [0, 1], ids=["key", "value"])
@pytest.mark.parametrize("place", [(0, 0), (2, 100), (4, 239)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_cache_reports_what_it_cannot_hold(
    dtype: str, place: tuple[int, int], port: int, devices: dict[int, Cpu]
) -> None:
    case = case_of("cache_write", f"{dtype} 5 of")
    assert not is_reported("cache_write", case, devices[3])
    for value in (np.nan, np.inf, -np.inf):
        assert is_reported("cache_write", planted(case, port, place, value), devices[3])
    for value in (LARGEST, -LARGEST, 1e-45):
        assert not is_reported("cache_write", planted(case, port, place, value), devices[3])
    for value in (65520.0, -3e38):
        assert is_reported("cache_write", planted(case, port, place, value), devices[3]) == (
            dtype == "float16"
        )

"""The ONNX project's own cases: each runs as a checked model, on kernels where its operators have some."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from assay.formats.onnx_file import from_proto
from assay.runtime.cpu import Cpu
from assay.runtime.model import analyse
from conformance.bits import differing, rows_differ, some
from conformance.cases import (
    Case,
    folder_case,
    folder_cases,
    light_cases,
    modules,
    node_cases,
    opened,
    run,
)

RANDOM = "random by definition: checked as a distribution, and for its seed, in test_random.py"
GRADIENT = "the preview operator Gradient asks for the gradient of a graph, which is still to come"
EXCEPTIONS: dict[str, str] = {
    **{f"test_bernoulli{each}": RANDOM for each in ("", "_double", "_seed")},
    **{f"test_bernoulli{each}_expanded": RANDOM for each in ("", "_double", "_seed")},
    **{f"test_training_dropout{each}": RANDOM for each in ("", "_mask", "_default", "_default_mask")},
    "test_gradient_of_add": GRADIENT,
    "test_gradient_of_add_and_mul": GRADIENT,
}
"""Cases that can't be met, each with the reason."""
TOLERANCES = {"test_dft_inverse": 1e-6, "test_dft_inverse_opset19": 1e-6}
"""Absolute ones, where the expected zeros are roundings of numbers up to 54 in float32 (1.9e-7)."""


def failures(cases: tuple[Case, ...]) -> list[str]:
    """What goes wrong with each case that isn't an exception."""
    found = []
    for case in cases:
        if case.name in EXCEPTIONS:
            continue
        try:
            run(replace(case, atol=TOLERANCES.get(case.name, case.atol)))
        except Exception as error:
            found.append(f"{case.name}: {type(error).__name__}: {error}")
    return found


# All tests of a module one after the other: to import it takes longer than they do.
every_module = pytest.mark.parametrize("module", modules(), scope="module")


@pytest.fixture(scope="session")
def devices() -> Iterator[dict[int, Cpu]]:
    """A device with each number of threads."""
    made = {threads: Cpu(threads) for threads in (1, 2, 3)}
    yield made
    for device in made.values():
        device.close()


@every_module
def test_node_cases(module: str) -> None:
    assert failures(node_cases(module)) == []


@every_module
def test_sizes_that_are_not_known_break_no_contract(module: str) -> None:
    """In turn: each size a symbol, no ranks, or symbols beside lists of integers that are constants."""
    for number, case in enumerate(node_cases(module)):
        found = analyse(from_proto(opened(case, ("sizes", "ranks", "sizes but lists")[number % 3])))
        assert [str(error) for error in found.errors] == [], case.name


@every_module
def test_threads_passes_and_rows_change_no_bit(
    module: str, devices: dict[int, Cpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of some cases of each module; draws without a seed aren't among them."""
    monkeypatch.setattr("assay.runtime.program.LITTLE", 0)  # threads share little work too
    for case in some(module):
        assert differing(case, devices) == []
        assert not rows_differ(case, devices), case.name


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_model_cases(kind: str) -> None:
    assert failures(tuple(folder_case(path) for _, path in folder_cases(kind))) == []


def test_light_models() -> None:
    assert failures(tuple(light_cases())) == []


def test_exceptions_are_cases() -> None:
    names = {case.name for module in ("bernoulli", "dropout", "dft") for case in node_cases(module)}
    names |= {name for name, _ in folder_cases("simple")}
    assert {*EXCEPTIONS, *TOLERANCES} <= names

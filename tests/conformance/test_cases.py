"""The ONNX project's own cases: each runs as a checked model, on kernels where its operators have some."""

from __future__ import annotations

import pytest

from conformance.cases import Case, folder_case, folder_cases, modules, node_cases, run

RANDOM = "random by definition"
EXCEPTIONS = {
    "test_dft_inverse": "what is wanted has errors of float32: 2e-7 in place of 0",
    "test_dft_inverse_opset19": "what is wanted has errors of float32: 2e-7 in place of 0",
    **{f"test_training_dropout{each}": RANDOM for each in ("", "_mask", "_default", "_default_mask")},
    **{f"test_bernoulli{each}": RANDOM for each in ("", "_double", "_seed")},
    **{f"test_bernoulli{each}_expanded": RANDOM for each in ("", "_double", "_seed")},
}
"""Cases that can't be met, each with the reason."""


def failures(cases: tuple[Case, ...]) -> list[str]:
    """What goes wrong with each case that isn't an exception."""
    found = []
    for case in cases:
        if case.name in EXCEPTIONS:
            continue
        try:
            run(case)
        except Exception as error:
            found.append(f"{case.name}: {type(error).__name__}: {error}")
    return found


@pytest.mark.parametrize("module", modules())
def test_node_cases(module: str) -> None:
    assert failures(node_cases(module)) == []


@pytest.mark.parametrize("kind", ["simple", "pytorch-operator", "pytorch-converted"])
def test_model_cases(kind: str) -> None:
    assert failures(tuple(folder_case(path) for _, path in folder_cases(kind))) == []

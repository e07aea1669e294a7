"""The ONNX project's own cases: each runs as a checked model, on kernels where its operators have some."""

from __future__ import annotations

import pytest

from conformance.cases import Case, folder_case, folder_cases, modules, node_cases, run

EXCEPTIONS: dict[str, str] = {}
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

"""The package's face: the names that it offers, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

import assay
from assay import errors

NAMES = {
    "check", "load", "Progress", "LanguageModel", "Completion", "__version__",
    "DataLoader", "Model", "Report", "TensorSpec", "Sampling", "Stream", "Timings", "Usage",
    "AssayError", "ContractError", "DeadlineExceeded", "EmbeddingModel", "FormatError", "HardwareFault",
    "KernelBuildError", "ModelNotFoundError", "PrecisionOverflow", "ProtocolError", "RequestError",
    "SchedulingDeadlock", "StoreError", "Violation",
}  # fmt: skip


def test_the_public_names_are_exactly_these() -> None:
    assert set(assay.__all__) == NAMES
    assert len(assay.__all__) == len(NAMES)
    assert {name for name in NAMES if not hasattr(assay, name)} == set()
    assert set(dir(assay)) >= NAMES


def test_every_error_is_public() -> None:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    assert {name for name, value in classes.items() if issubclass(value, BaseException)} <= NAMES


def test_the_submodule_load_does_not_hide_the_function() -> None:
    assert callable(assay.load)
    code = "import assay.llm.loader, assay; from assay.load import Progress; assert callable(assay.load)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        _ = assay.nonsense


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, assay; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    loaded = {name.partition(".")[0] for name in modules.split()}
    assert "assay" in loaded
    assert loaded & {"numpy", "numba", "llvmlite", "tokenizers", "jinja2", "rich", "argparse"} == set()

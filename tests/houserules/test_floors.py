"""Each folder of src/assay imports only from itself and the folders above it."""

from __future__ import annotations

import ast

import pytest

from houserules.sources import Source, planted, sources

ROOT = ""
"""The package's own `__init__`: below all that it offers, above the commands that use it."""
# fmt: off
FLOORS = (
    "errors", "settings", "metrics", "tensor", "simd", "kernels", "graph", "ops", "formats", "hub", "models",
    "compiler", "runtime", "autograd", "llm", "load", "audit", "serving", "gateway", "observe", ROOT, "cli",
    "__main__",
)
# fmt: on


def floor(module: str) -> str:
    """The floor that a dotted name lies on. `assay.name` is the root's own unless there is such a floor."""
    inside = module.split(".")[1:]
    return inside[0] if len(inside) > 1 or (inside and inside[0] in FLOORS) else ROOT


def imported(source: Source) -> list[tuple[int, str]]:
    """(line, module) of all imports of Assay, wherever they stand; by name too, for importlib's."""
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = source.package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
            found += [(node.lineno, f"{base}.{alias.name}") for alias in node.names]
    for name, call in source.calls:
        if name.split(".")[-1] in ("import_module", "__import__") and call.args:
            match call.args[0]:
                case ast.Constant(value=str() as module):
                    found.append((call.lineno, module))
    return [(line, module) for line, module in found if module.split(".")[0] == "assay"]


def violations(source: Source) -> list[str]:
    own = floor(source.module)
    if own not in FLOORS or (own == ROOT and source.module != "assay"):
        return [f"{source.module}: not on the list of floors"]
    return [
        f"{source.module}, line {line}: imports {module} from below"
        for line, module in imported(source)
        if floor(module) not in FLOORS or FLOORS.index(floor(module)) > FLOORS.index(own)
    ]


def test_the_floors_are_respected() -> None:
    assert sources()
    assert [problem for source in sources() for problem in violations(source)] == []


@pytest.mark.parametrize(
    "text",
    [
        "import assay.kernels",
        "import numpy, assay.kernels.gemm as gemm",
        "from assay import kernels",
        "from assay.kernels import gemm",
        "from .. import kernels",
        "from ..kernels.gemm import f",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from assay.kernels import gemm",
        "def f():\n    from assay.llm.engine import Engine",
        "import importlib\nimportlib.import_module('assay.kernels')",
        "import assay",
        "from assay import __version__",
        "from assay.nowhere.thing import f",
    ],
)
def test_a_planted_violation_is_caught(text: str) -> None:
    assert len(violations(planted("assay.tensor.pool", text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from assay import errors",
        "from . import dtype",
        "from ..errors import E",
        "from .dtype import F32",
        "import re",
    ],
)
def test_what_is_allowed_passes(text: str) -> None:
    assert violations(planted("assay.tensor.pool", text)) == []


def test_the_public_face_and_the_commands_stand_at_the_bottom() -> None:
    assert violations(planted("assay.cli.run", "import assay\nfrom assay.llm import engine")) == []
    assert violations(planted("assay", "from assay.load import load")) == []
    assert len(violations(planted("assay", "from assay.cli import main"))) == 1


def test_a_folder_that_is_not_on_the_list_is_caught() -> None:
    assert violations(planted("assay.helpers.misc", "")) == ["assay.helpers.misc: not on the list of floors"]

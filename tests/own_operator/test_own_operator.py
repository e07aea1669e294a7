"""Operators of an installed package work like the standard's; what is wrong with a package names it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
GUIDE = (HERE.parents[1] / "docs" / "guides" / "own-operators.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", GUIDE, re.DOTALL)
PYTHON = [text for kind, text in BLOCKS if kind == "python"]


def installed(folder: Path, package: str, module: str) -> None:
    """What an installer leaves of a package's metadata."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[assay.operators]\n{package} = {module}\n")


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(HERE), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_guide_is_the_package() -> None:
    files = [HERE / "pyproject.toml", HERE / "scaled" / "operators.py", HERE / "scaled" / "kernels.py"]
    assert [text for _, text in BLOCKS[:3]] == [file.read_text() for file in files]


def test_an_installed_package_runs_and_is_known_to_commands(tmp_path: Path) -> None:
    installed(tmp_path, "scaled", "scaled.operators")
    ran = python(tmp_path, "-c", PYTHON[-1])
    assert ran.stdout.strip() == BLOCKS[-1][1].strip(), ran.stderr
    contract = python(tmp_path, "-m", "assay", "contract", "com.example.Scale")
    assert "Y = X · factor" in contract.stdout, contract.stderr
    shown = python(tmp_path, "-m", "assay", "show", "scaled.onnx")
    assert "com.example.Alternate" in shown.stdout and "float32[n]" in shown.stdout, shown.stderr
    assert python(tmp_path, "-m", "assay", "check", "scaled.onnx").returncode == 0
    scalar = PYTHON[-1].split("import assay")[0].replace('FLOAT, ["n"]', "FLOAT, []")
    python(tmp_path, "-c", scalar)
    refused = python(tmp_path, "-m", "assay", "check", "scaled.onnx")
    assert refused.returncode == 1 and 'node "scale" (com.example.Scale)' in refused.stdout + refused.stderr


BROKEN = {
    "raise RuntimeError('no licence')": "RuntimeError: no licence",
    "import nowhere_at_all": "ModuleNotFoundError",
    "define('Relu', print, formula='Y = X', shapes='X')": "operator name taken",
    "define('com.example.Half', None)": "no schema",
    "define('com.example.Half', None, given=Schema('com.example.Half', 1, (), (), {}))": "nothing that runs",
    "define('com.example.Half', None, formular='x')": "TypeError",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_package_is_named(text: str, tmp_path: Path) -> None:
    installed(tmp_path, "half", "halves")
    head = "from assay.ops.standard.registry import define\nfrom assay.ops.standard.schema import Schema\n"
    (tmp_path / "halves.py").write_text(head + text)
    again = (
        "from assay.errors import ContractError\nfrom assay.ops.standard.registry import find\n"
        "for _ in range(2):\n    try:\n        find('Relu')\n    except ContractError as error:\n"
        "        print(error)\n"
    )
    ran = python(tmp_path, "-c", again)
    told = ran.stdout.split("package half › halves")
    assert len(told) == 3 and told[1] == told[2].replace("\n\n", "\n") and BROKEN[text] in told[1], (
        ran.stdout + ran.stderr
    )

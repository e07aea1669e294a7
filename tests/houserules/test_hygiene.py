"""No code from data, no swallowed errors, nothing of one machine, nothing left for later."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from houserules.sources import REPOSITORY, Source, planted, sources

CODE_FROM_DATA = ("eval", "exec", "compile", "__import__")
MODULES = ("pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib")
HOME = r"(?<![\w.~-])/(?:home|root|Users|work|workspace|mnt|srv)/\w"
SCRATCH = r"(?<![\w.~-])/(?:var/)?tmp/\w"
ANYWHERE = r"127\.0\.0\.1|localhost|pypi\.org"
OPTION = r"(?i:index-url|index_url|trusted-host|find-links)"
INDEX = rf"{OPTION}[\"']?[ =,:]+[\"']?(?:file|https?)://(?!{ANYWHERE})"
ADDRESS = r"(?<![\w.])(?:10|172\.(?:1[6-9]|2\d|3[01])|192\.168)\.\d{1,3}\.\d{1,3}(?:\.\d{1,3})?\b(?!\.)"
LATER = r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b"
SUFFIXES = {".py", ".md", ".toml", ".cfg", ".yml", ".yaml", ".sh", ".txt", ".ini", ""}


def unsafe(source: Source) -> list[str]:
    """Where a file runs data as code, or swallows every error."""
    found = [
        (call.lineno, name) for name, call in source.calls if name.removeprefix("builtins.") in CODE_FROM_DATA
    ]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append((node.lineno, "bare except"))
        elif isinstance(node, ast.Import):
            found += [
                (node.lineno, alias.name) for alias in node.names if alias.name.split(".")[0] in MODULES
            ]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            found.append((node.lineno, node.module or ""))
        elif (
            isinstance(node, ast.keyword)
            and node.arg == "allow_pickle"
            and ast.unparse(node.value) != "False"
        ):
            found.append((node.value.lineno, "allow_pickle"))
    return [f"{source.module}, line {line}: {what}" for line, what in found]


def of_one_machine(text: str) -> list[str]:
    """Paths, package indexes and addresses that only some machine or network has; and notes for later."""
    return [
        match[0] for pattern in (HOME, SCRATCH, INDEX, ADDRESS, LATER) for match in re.finditer(pattern, text)
    ]


def texts() -> list[Path]:
    """The files that people wrote, but this one, which has to spell what it forbids."""
    places = [REPOSITORY / name for name in ("src", "tests", "benchmarks", "docs", ".ci")]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    files += [path for path in REPOSITORY.iterdir() if path.is_file()]
    written = (path for path in files if path.suffix in SUFFIXES and path != Path(__file__))
    return sorted(path for path in written if "__pycache__" not in path.parts and path.name != ".git")


def test_no_code_from_data_and_no_swallowed_errors() -> None:
    assert [problem for source in sources() for problem in unsafe(source)] == []


def test_nothing_of_one_machine_and_nothing_left_for_later() -> None:
    assert texts()
    found = {str(path.relative_to(REPOSITORY)): of_one_machine(path.read_text()) for path in texts()}
    assert {path: problems for path, problems in found.items() if problems} == {}


@pytest.mark.parametrize(
    "text",
    [
        "eval('1')",
        "builtins.exec(code)",
        "compile(text, 'x', 'exec')",
        "import pickle",
        "import numpy, dill",
        "from marshal import loads",
        "np.load(path, allow_pickle=True)",
        "try:\n    f()\nexcept:\n    pass",
    ],
)
def test_planted_unsafe_code_is_caught(text: str) -> None:
    assert len(unsafe(planted("assay.x", text))) == 1


def test_safe_code_passes() -> None:
    text = "re.compile('x')\nmodel.eval()\nnp.load(path, allow_pickle=False)"
    text += "\ntry:\n    f()\nexcept OSError:\n    pass"
    assert unsafe(planted("assay.x", text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "cd /home/someone",
        'open("/' + 'work/data/x")',
        "/tmp/model.gguf",
        "pip install --index-url https://host/simple",
        'setenv("PIP_EXTRA_INDEX_URL", "https://host/simple")',
        "find-links = file:///" + "opt/wheels",
        "http://10.1.2.3/simple",
        "http://192.168.1.7:8080",
        "# TODO: later",
    ],
)
def test_planted_traces_are_caught(text: str) -> None:
    assert len(of_one_machine(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "~/work/x",
        "https://index.example/simple",
        "127.0.0.1",
        "PIP_INDEX_URL=http://127.0.0.1:8080/simple",
        "0.10.1.2",
        "docs/home/x",
        "version 10.2",
        "hackney",
    ],
)
def test_what_anyone_has_passes(text: str) -> None:
    assert of_one_machine(text) == []

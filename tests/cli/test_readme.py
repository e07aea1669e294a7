"""The repository's face: its two commands, what continuous integration runs, the changelog's ranges."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np

import assay
from assay.cli.dispatch import COMMANDS
from houserules.sources import REPOSITORY
from readme import LIST, updated

README = (REPOSITORY / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    """The README's shell commands."""
    return [line for block in blocks("sh") for line in block.splitlines()]


def test_there_are_two_commands_and_each_sets_everything_up() -> None:
    answer, tests = commands()
    for command in (answer, tests):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
    assert re.search(r"&& \.venv/bin/assay run smollm2 \"[^\"]+\"$", answer)
    assert tests.endswith("&& .venv/bin/python -m pytest -n 2 --dist loadfile")


def test_ci_runs_exactly_the_test_command() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    (line,) = re.findall(r"^command=.*$", text, re.MULTILINE)
    found = subprocess.run(
        ["bash", "-c", f'{line}; echo "$command"'], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    assert found == commands()[1] + "\n"
    assert text.rstrip().endswith('bash -euo pipefail -c "$command"')


def test_the_failure_that_is_shown_is_what_happens(cli) -> None:
    (shown,) = blocks("console")
    line, _, error = shown.partition("\n")
    outcome = cli(*shlex.split(line.removeprefix("$ assay ")))
    assert outcome.err == error


def test_the_list_of_models_and_types_is_what_the_code_says() -> None:
    """`python tests/readme.py` writes it anew."""
    assert LIST.search(README) and updated(README) == README


def test_every_command_is_named() -> None:
    assert [name for name in COMMANDS if name.split()[-1] not in README] == []


def test_the_python_example_uses_what_there_is(smollm2) -> None:
    example = blocks("python")[0]
    names = set(re.findall(r"\blm\.(\w+)\(", example))
    assert names == {"generate", "stream", "generate_batch", "logits"}
    assert all(callable(getattr(smollm2, name)) for name in names)


def test_the_example_of_records_runs(tmp_path: Path) -> None:
    np.save(tmp_path / "train.npy", np.zeros((1024, 2)))
    code = f"import assay\n{blocks('python')[2]}\nassert saved == loader.position and saved['epoch'] == 1"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_the_example_of_graphs_runs(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    file.write_text(blocks("python")[1])
    found = runpy.run_path(str(file), {"assay": assay})
    assert found["report"].ok
    (output,) = found["outputs"].values()
    assert output.shape == (2, 2)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert len(links) > 5
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_the_changelog_has_the_dependencies_ranges() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    changelog = (REPOSITORY / "CHANGELOG.md").read_text()
    for dependency in project["dependencies"]:
        name, bound, version = dependency.partition(">=")
        assert f"| {name} | {bound}{version} |" in changelog
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (REPOSITORY / "LICENSE").read_text()

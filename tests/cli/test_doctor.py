"""`assay doctor`: good on a good machine, and says what is wrong on others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from assay import settings
from assay.cli import doctor, machine
from assay.cli.doctor import WRONG
from assay.errors import HardwareFault
from assay.hub.catalogue import CATALOGUE
from assay.hub.pull import pull


def test_this_machine_is_fit(cli, smollm2: object) -> None:
    outcome = cli("doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(outcome.out)}
    assert [finding for finding in findings.values() if finding["state"] != "ok"] == []
    assert outcome.code == 0
    names = [
        "python", "packages", "settings", "processor", "memory", "cache folder", "compiler", "threads",
        "models",
    ]  # fmt: skip
    assert list(findings) == names
    assert "smollm2 is here and intact" in findings["models"]["found"]


@pytest.fixture
def _only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the checks that compile or read a model."""
    monkeypatch.setattr(doctor, "_compiler", lambda: "not tried")
    monkeypatch.setattr(doctor, "_threads", lambda threads: "not tried")
    monkeypatch.setattr(doctor, "_models", lambda: "not tried")


@pytest.mark.usefixtures("_only")
def test_a_cache_that_others_may_write_is_wrong(cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    assert cli("doctor").code == 0
    (folder,) = (tmp_path / "kernels").iterdir()
    folder.chmod(0o777)
    outcome = cli("doctor")
    assert outcome.code == 1
    wrong = [line for line in outcome.out.splitlines() if line.startswith("WRONG")]
    assert len(wrong) == 1 and str(folder) in wrong[0]
    assert "chmod 700" in outcome.out


@pytest.mark.usefixtures("_only")
def test_a_cache_that_cannot_be_made_is_wrong(cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("ASSAY_CACHE", str(file))
    outcome = cli("doctor")
    assert outcome.code == 1 and "ASSAY_CACHE" in outcome.out


@pytest.mark.usefixtures("_only")
def test_too_little_memory_is_wrong(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory", {"MemTotal": 8 << 30, "MemAvailable": 100 << 20}.get)
    outcome = cli("doctor")
    assert outcome.code == 1 and "0.1 GB" in outcome.out


@pytest.mark.usefixtures("_only")
@pytest.mark.parametrize("name", [setting.name for setting in settings.ALL])
def test_one_fault_is_one_row_and_what_rests_on_it_is_skipped(
    cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "\n")
    outcome = cli("doctor", "--json")
    assert outcome.code == 1
    states = {finding["name"]: finding["state"] for finding in json.loads(outcome.out)}
    assert [check for check, state in states.items() if state == "WRONG"] == ["settings"]
    skipped = ["processor", "cache folder", "compiler", "threads", "models"]
    assert [check for check, state in states.items() if state == "skipped"] == skipped
    lines = cli("doctor").out.splitlines()
    assert sum(name in line for line in lines) == 2, "the row and what to do"


def test_each_file_of_a_model_is_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for entry in CATALOGUE.values():
        path = pull(entry.name)
        place = tmp_path / "models" / entry.cached_as.parent
        shutil.copytree(path if path.is_dir() else path.parent, place, copy_function=os.symlink)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    assert doctor._models().count("is here and intact") == len(CATALOGUE)
    for entry in CATALOGUE.values():
        for name in (entry.cached_as.name, *entry.beside):
            file = tmp_path / "models" / entry.cached_as.parent / name
            target = file.readlink()
            file.unlink()
            file.write_bytes(b"damaged")
            with pytest.raises(HardwareFault, match="is damaged"):
                doctor._models()
            file.unlink()
            file.symlink_to(target)


def test_checks_need_only_checks_before_them() -> None:
    before: list[str] = []
    for name, (_, needs) in doctor.checks(1).items():
        assert set(needs) <= set(before)
        before.append(name)


def test_a_kernel_that_computes_wrongly_is_found() -> None:
    state, found, _ = doctor.examine(lambda: str(doctor._norm(lambda *words: None)))
    assert state == WRONG and "computes wrongly" in found


def test_a_compiler_that_fails_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # The compiler's process finds a module named numba that can't be imported.
    (tmp_path / "numba.py").write_text("raise ImportError('planted')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    state, _, fix = doctor.examine(doctor._compiler)
    assert state == WRONG and fix

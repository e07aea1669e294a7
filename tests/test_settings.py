"""Environment variables: each value is read strictly, wherever it is used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import assay
from assay import settings
from assay.errors import RequestError
from assay.runtime import cpu

REFUSED = {
    "ASSAY_CACHE": ["a\nb", "a\tb", "~nosuchuser/x", "a\x7f", "a\udcffb"],
    "ASSAY_THREADS": ["0", "-1", "two", "1.5", " 2", "1_0", "٣", "9" * 5000],
    "ASSAY_CPU": ["foo", "AVX2", "avx2 "],
    "ASSAY_DEBUG": ["2", "true", "debug"],
}
ADMITTED: dict[str, dict[str, object]] = {
    "ASSAY_CACHE": {"/a b/ü": Path("/a b/ü"), "~/x": Path.home() / "x"},
    "ASSAY_THREADS": {"1": 1, "64": 64},
    "ASSAY_CPU": {level: level for level in settings.CPU_LEVELS},
    "ASSAY_DEBUG": {"0": False, "1": True},
}


def test_every_setting_is_tried_here() -> None:
    assert list(REFUSED) == list(ADMITTED) == [setting.name for setting in settings.ALL]


@pytest.mark.parametrize("setting", settings.ALL, ids=lambda setting: setting.name)
def test_values(setting: settings.Setting[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(setting.name, raising=False)
    default = setting.get()
    monkeypatch.setenv(setting.name, "")
    assert setting.get() == default
    for text, value in ADMITTED[setting.name].items():
        monkeypatch.setenv(setting.name, text)
        assert setting.get() == value
        settings.check()
    for text in REFUSED[setting.name]:
        monkeypatch.setenv(setting.name, text)
        # `load` refuses it too, before it looks for the model.
        for read in (setting.get, settings.check, lambda: assay.load("no such model")):
            with pytest.raises(RequestError) as caught:
                read()
            error = caught.value
            assert (error.place, error.want, error.got) == (setting.name, setting.want, repr(text))
            assert setting.name in error.hint


def test_a_cache_folder_that_cant_be_told_names_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_CACHE", raising=False)
    for base in ("~nosuchuser", "a\nb"):
        monkeypatch.setenv("XDG_CACHE_HOME", base)
        with pytest.raises(RequestError) as caught:
            settings.CACHE.get()
        assert caught.value.place == "ASSAY_CACHE" and caught.value.hint == "set ASSAY_CACHE"


def test_a_variable_that_nothing_reads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ASSAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("ASSAY_NOBODYS", "1")
    monkeypatch.setenv("ASSAY_CPU", "host")
    assert settings.unknown() == ["ASSAY_NOBODYS"]


def test_control_groups_limit_threads_and_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = tmp_path / Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip() / ""
    own.mkdir(parents=True, exist_ok=True)
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (own / "memory.max").write_text("max\n")
    assert settings.group_limits("cpu.max", tmp_path) == ["150000 100000\n"]
    assert settings.group_limits("memory.max", tmp_path) == ["max\n"]
    (tmp_path / "memory.high").mkdir()  # one that can't be read
    assert settings.group_limits("memory.high", tmp_path) == []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8))
    said = {"cpu.max": ["350000 100000\n", "max 100000\n"], "memory.max": ["max\n", "1234567\n"]}
    for module in (settings, cpu):
        monkeypatch.setattr(module, "group_limits", said.get)
    assert settings.THREADS.get() == 4 and cpu.memory() == 1234567
    said["cpu.max"] = ["1000 100000\n"]
    assert settings.THREADS.get() == 1
    said["cpu.max"] = []
    assert settings.THREADS.get() == 8

"""A folder's members: plain names, that lead nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assay.errors import FormatError, HardwareFault
from assay.formats.files import member, read_at


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, beside another file."""
    (tmp_path / "secret").write_text("x")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    return tmp_path / "model"


def test_a_member(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert member(folder, "config.json") == folder / "config.json"
    (folder / "inner").symlink_to("config.json")
    assert member(folder, "inner") == folder / "inner"
    (folder / "absolute").symlink_to(folder / "config.json")
    assert member(folder, "absolute") == folder / "absolute"
    monkeypatch.chdir(folder)
    assert member(Path(), "config.json") == Path("config.json")
    (folder.parent / "linked").symlink_to(folder)
    assert member(folder.parent / "linked", "config.json").read_text() == "{}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../secret",
        "/etc/hostname",
        "inner/config.json",
        "./config.json",
        "a\\b",
        "a\0b",
        "n" * 256,
        "é" * 128,
    ],
)
def test_what_is_no_plain_name(folder: Path, name: str) -> None:
    with pytest.raises(FormatError) as caught:
        member(folder, name)
    assert caught.value.rule == "not the name of a file"
    assert caught.value.place.startswith(f"{folder} › file ")


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "..", "../model-2/x", "hop"])
def test_links_that_lead_out(folder: Path, target: str) -> None:
    (folder.parent / "model-2").mkdir()  # a name that begins like the folder's
    (folder.parent / "model-2" / "x").write_text("x")
    (folder / "hop").symlink_to("../secret")
    (folder / "link").symlink_to(target)
    with pytest.raises(FormatError) as caught:
        member(folder, "link")
    assert caught.value.rule == "a link that leads out of the folder"
    assert caught.value.place == f"{folder} › file 'link'"
    assert caught.value.got == os.path.realpath(folder / "link")


def test_what_is_not_there(folder: Path) -> None:
    (folder / "dangling").symlink_to("nowhere")
    for name in ("absent", "dangling"):
        with pytest.raises(FormatError) as caught:
            member(folder, name)
        assert caught.value.rule == "a file is missing" and caught.value.hint
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(FormatError) as caught:
        member(folder, "a")
    assert caught.value.rule == "a file can't be found" and caught.value.got


def test_a_file_that_claims_more_than_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (tmp_path / "file").open("rb") as file, pytest.raises(HardwareFault) as caught:
        read_at(file.fileno(), 0, 1 << 60)
    assert caught.value.want == f"{1 << 60} bytes in one piece"

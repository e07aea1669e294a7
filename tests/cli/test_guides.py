"""The guides: their Python runs, one block after the other, and their commands print what is shown."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest

from houserules.sources import REPOSITORY

ELSEWHERE = ("own-operators",)
"""Guides that register operators in this process: tests/own_operator runs them in others."""
EVERY = sorted((REPOSITORY / "docs" / "guides").glob("*.md"))
GUIDES = [guide for guide in EVERY if guide.stem not in ELSEWHERE]


@pytest.mark.parametrize("guide", GUIDES, ids=[guide.stem for guide in GUIDES])
def test_a_guide_does_what_it_shows(
    cli, guide: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```(python|console)\n(.*?)```", guide.read_text(), re.DOTALL)
    assert {language for language, _ in blocks} == {"python", "console"}
    for language, block in blocks:
        if language == "python":
            Path("block.py").write_text(block)
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                names |= runpy.run_path("block.py", names)
            told = re.findall(r"^ *print\(.*\)  # (.*) …$", block, re.MULTILINE)
            assert [line for line in told if line not in printed.getvalue().splitlines()] == []
            continue
        command, _, shown = block.partition("\n")
        outcome = cli(*shlex.split(command.removeprefix("$ assay ")))
        # Of long outputs some lines are left out.
        pieces = map(re.escape, shown.split("…\n"))
        assert re.fullmatch(r"(?:.*\n)*?".join(pieces), outcome.out + outcome.err), outcome.out + outcome.err

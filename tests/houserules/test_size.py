"""Small enough to be audited: lines per file, per floor and in all, and columns."""

from __future__ import annotations

from pathlib import Path

from houserules.sources import SRC, scripts, sources

CORE = ("tensor", "simd", "kernels", "graph", "compiler", "runtime")
MOST_LINES, MOST_COLUMNS = 600, 110
MOST_CORE, MOST_SRC = 9_000, 20_000


def oversized(path: Path, text: str) -> list[str]:
    lines = text.splitlines()
    found = [f"{path}: {len(lines)} lines"] if len(lines) > MOST_LINES else []
    return found + [
        f"{path}:{i}: {len(line)} columns" for i, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS
    ]


def test_files_are_short_and_narrow() -> None:
    files = [source.path for source in sources()] + scripts()
    assert [problem for path in files for problem in oversized(path, path.read_text())] == []


def test_the_core_and_the_whole_are_small() -> None:
    lines = {source.path.relative_to(SRC): len(source.text.splitlines()) for source in sources()}
    assert sum(lines.values()) <= MOST_SRC
    assert sum(count for path, count in lines.items() if path.parts[0] in CORE) <= MOST_CORE


def test_the_checker_sees_what_is_too_large() -> None:
    path = Path("x.py")
    assert oversized(path, "x\n" * 600 + "") == []
    assert oversized(path, "x\n" * 601) == ["x.py: 601 lines"]
    assert oversized(path, "é" * 110) == []
    assert oversized(path, "\n" + "é" * 111) == ["x.py:2: 111 columns"]

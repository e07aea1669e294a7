"""Small enough to be audited: lines per file, per floor and in all, and columns.

Lines of code are counted: blank lines, comments and docstrings make it easier to audit, and a limit on them
would ask for fewer.
"""

from __future__ import annotations

import ast
import io
import tokenize
from pathlib import Path

from houserules.sources import SRC, scripts, sources

CORE = ("tensor", "simd", "kernels", "graph", "compiler", "runtime")
MOST_LINES, MOST_COLUMNS = 600, 110
MOST_CORE = 9_000
MOST_SRC = 32_000
"""What was wanted is 20,000: language models take 14,000, the 230 operators of ONNX 7,000, what runs them and
serves them the rest. It must not grow further than serving needs, and whoever makes it smaller lowers this.
"""


def oversized(path: Path, text: str) -> list[str]:
    lines = text.splitlines()
    found = [f"{path}: {len(lines)} lines"] if len(lines) > MOST_LINES else []
    return found + [
        f"{path}:{i}: {len(line)} columns" for i, line in enumerate(lines, 1) if len(line) > MOST_COLUMNS
    ]


def test_files_are_short_and_narrow() -> None:
    files = [source.path for source in sources()] + scripts()
    assert [problem for path in files for problem in oversized(path, path.read_text())] == []


_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def code_lines(text: str) -> int:
    """Lines that hold code: neither blank, nor just a comment, nor part of a string that is a statement
    of its own, which a docstring is.
    """
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = {n for t in tokens if t.type not in _NO_CODE for n in range(t.start[0], t.end[0] + 1)}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str()), lineno=first, end_lineno=last):
                found -= set(range(first, (last or first) + 1))
    return len(found)


def test_the_core_and_the_whole_are_small() -> None:
    assert sum(code_lines(source.text) for source in sources()) <= MOST_SRC
    core = (source for source in sources() if source.path.relative_to(SRC).parts[0] in CORE)
    assert sum(code_lines(source.text) for source in core) <= MOST_CORE


def test_lines_of_code_are_counted() -> None:
    assert code_lines('"""A module\n\nof two."""\n\n# comment\nx = 1  # one\n') == 1
    assert code_lines('def f():\n    """What."""\n    return """a\nb"""\n') == 3
    assert code_lines("x = [\n    1,\n\n    2,\n]\n") == 4


def test_the_checker_sees_what_is_too_large() -> None:
    path = Path("x.py")
    assert oversized(path, "x\n" * 600 + "") == []
    assert oversized(path, "x\n" * 601) == ["x.py: 601 lines"]
    assert oversized(path, "é" * 110) == []
    assert oversized(path, "\n" + "é" * 111) == ["x.py:2: 111 columns"]

"""The pages in docs/contracts are what the records say: `python tests/contracts.py` writes them anew."""

from __future__ import annotations

import re

from contracts import FOLDER, pages


def test_the_pages_are_current() -> None:
    texts = pages()
    there = {path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*.md")}
    assert sorted(there) == sorted(texts)
    assert [name for name, text in there.items() if texts[name] != text] == []


def test_names_are_safe_and_differ_in_any_case() -> None:
    names = [name.lower() for name in pages()]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"(language-models/)?[a-z0-9._-]+\.md", name)] == []

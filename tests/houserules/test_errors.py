"""The tree drawn in errors.py is the real one, and there are no exceptions elsewhere."""

from __future__ import annotations

import ast
import builtins
import inspect
import re

from assay import errors
from houserules.sources import Source, planted, sources


def drawn(text: str) -> dict[str, tuple[str, str]]:
    """Of each class in a drawn tree: (the class above it, what is said about it)."""
    found: dict[str, tuple[str, str]] = {}
    above: list[str] = []
    for line in text.splitlines():
        match = re.fullmatch(r"    ((?:│   |    )*)(├── |└── )?([A-Z]\w*)(?: {2,}(.+))?", line)
        if match:
            depth = len(match[1]) // 4 + bool(match[2])
            above = [*above[:depth], match[3]]
            found[match[3]] = (above[depth - 1] if depth else "Exception", match[4] or "")
    return found


def real() -> dict[str, str]:
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    ours = [cls for cls in classes if cls.__module__ == errors.__name__ and issubclass(cls, BaseException)]
    return {cls.__name__: cls.__bases__[0].__name__ for cls in ours}


def strays(source: Source) -> list[str]:
    """Exception classes defined in a file."""
    ours = set(real())
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef):
            for base in (ast.unparse(base).split(".")[-1] for base in node.bases):
                known = getattr(builtins, base, None)
                if base in ours or (isinstance(known, type) and issubclass(known, BaseException)):
                    found.append(f"{source.module}: {node.name}({base})")
    return found


def test_the_drawn_tree_is_the_real_one() -> None:
    tree = drawn(errors.__doc__ or "")
    assert {name: base for name, (base, _) in tree.items()} == real()
    assert all(about for name, (_, about) in tree.items() if name != "AssayError")


def test_each_class_says_what_it_means() -> None:
    for name in real():
        assert getattr(errors, name).__doc__


def test_there_are_no_exceptions_elsewhere() -> None:
    found = [stray for source in sources() if source.module != "assay.errors" for stray in strays(source)]
    # An answer to a client and the end of one: faults of neither Assay nor its caller.
    assert found == ["assay.gateway.errors: Refusal(Exception)", "assay.gateway.errors: Gone(Exception)"]


def test_the_checkers_see() -> None:
    assert drawn("    A\n    ├── B    first\n    │   └── C    second\n    └── D    third\n") == {
        "A": ("Exception", ""),
        "B": ("A", "first"),
        "C": ("B", "second"),
        "D": ("A", "third"),
    }
    for text in (
        "class X(ValueError): ...",
        "class X(errors.FormatError): ...",
        "class X(A, HardwareFault): ...",
    ):
        assert len(strays(planted("assay.x", text))) == 1
    assert strays(planted("assay.x", "class X(Protocol): ...")) == []

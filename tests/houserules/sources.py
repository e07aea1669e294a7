"""The files that the house rules are about."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import assay

SRC = Path(assay.__file__).parent
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """One Python file: where it lies, the name that imports it, and its text."""

    path: Path
    module: str
    """Dotted, such as "assay.tensor.pool"; a package's `__init__` has the package's name."""
    text: str

    @property
    def package(self) -> str:
        """What a relative import with one dot starts from."""
        return self.module if self.path.name == "__init__.py" else self.module.rpartition(".")[0]

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, str(self.path))

    @cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        """Every call with the dotted name of what is called."""
        return [(ast.unparse(node.func), node) for node in ast.walk(self.tree) if isinstance(node, ast.Call)]


def planted(module: str, text: str) -> Source:
    """A file that isn't there, to test a checker with."""
    return Source(Path(*module.split(".")).with_suffix(".py"), module, text)


def sources() -> list[Source]:
    """All of src/assay."""
    found = []
    for path in sorted(SRC.rglob("*.py")):
        parts = ["assay", *path.relative_to(SRC).with_suffix("").parts]
        found.append(Source(path, ".".join(parts).removesuffix(".__init__"), path.read_text()))
    return found


def scripts() -> list[Path]:
    """The Python files beside src: tests and benchmarks."""
    return sorted(path for folder in ("tests", "benchmarks") for path in (REPOSITORY / folder).rglob("*.py"))

"""Which sources a kernel's machine code is made of, and their digest; and what a kernel's name says:
`norm.rms_norm` is in assay.kernels.norm, `package.module:function` is a user's own.

A kernel depends on its own module and on the modules of its own package and of Assay that it imports, and so
on: read from the import statements, wherever they stand, without importing anything. All of simd/ and the
builder count always. Modules of other packages don't count: a user's helper belongs in the kernel's package.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import util
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_IMPORT = re.compile(r"\n *(?:from (\S+) )?import (\([^)]*\)|[^\n#]*)")
"""A statement, and of what follows `from` and `import` in it."""
_NAME = re.compile(r"[\w.]+")
Imports = Iterable[tuple[str, tuple[str, ...]]]
"""Modules as a statement names them, each with the names that are taken from it."""


@dataclass(frozen=True)
class Source:
    """One module's text."""

    module: str
    is_package: bool
    text: bytes

    @cached_property
    def line(self) -> str:
        """What it adds to a digest."""
        return f"{self.module} {hashlib.sha256(self.text).hexdigest()}\n"

    @cached_property
    def imports(self) -> Imports:
        """What it imports, by full names."""
        found = of_lines(self.text.decode()) if top(self.module) == "assay" else of_syntax(self.text)
        return tuple((self._absolute(name), names) for name, names in found)

    def _absolute(self, name: str) -> str:
        level = len(name) - len(name.lstrip("."))
        above = [*self.module.split("."), *["__init__"] * self.is_package][:-level] if level else []
        return ".".join(filter(None, [*above, name[level:]]))


def module_of(name: str) -> tuple[str, str]:
    """The importable module and the attribute in it."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        return module, attribute
    module, _, attribute = name.rpartition(".")
    return f"assay.kernels.{module}", attribute


def object_of(name: str, digest: str) -> str:
    """The name of the kernel's object file, when its sources have this digest."""
    return f"{name.replace(':', '.')}-{digest}.o"


def symbol_of(name: str) -> str:
    """The exported symbol in the kernel's object file."""
    return "assay_" + re.sub(r"\W", "_", name)


class Sources:
    """The sources as they are now: each file is looked at once."""

    def __init__(self) -> None:
        self._found: dict[str, Source | None] = {}
        self._digests: dict[str, str] = {}
        self._always = {name: self._find(name) for name in _always()}

    def digest(self, kernel: str) -> str:
        """24 hex digits of all sources that the kernel's machine code is made of."""
        module = module_of(kernel)[0]
        if module not in self._digests:
            text = "".join(source.line for _, source in sorted(self._used(module).items()) if source)
            self._digests[module] = hashlib.sha256(text.encode()).hexdigest()[:24]
        return self._digests[module]

    def size(self, kernel: str) -> int:
        """Bytes of the kernel's module; 0 where there is none."""
        source = self._find(module_of(kernel)[0])
        return len(source.text) if source else 0

    def _used(self, module: str) -> dict[str, Source | None]:
        """The module, what it imports, and what counts always."""
        packages, used = {"assay", top(module)}, self._always.copy()
        left = [module]
        while left:
            name = left.pop()
            if name in used or top(name) not in packages:
                continue
            source = used[name] = self._find(name)
            for base, names in source.imports if source else ():
                left.append(base)
                found = self._find(base) if names and top(base) in packages else None
                if found is None or found.is_package:
                    left += [f"{base}.{each}" for each in names]
        return used

    def _find(self, module: str) -> Source | None:
        if module not in self._found:
            self._found[module] = _find(module)
        return self._found[module]


def top(module: str) -> str:
    """The package that a module belongs to: the first part of its name."""
    return module.partition(".")[0]


def _always() -> tuple[str, ...]:
    simd = sorted(path.stem for path in (_PACKAGE / "simd").iterdir() if path.suffix == ".py")
    return "assay.kernels.build", "assay.kernels.digest", *(f"assay.simd.{name}" for name in simd)


def _find(module: str) -> Source | None:
    """The module's source, or None when there is no such module or it isn't in Python."""
    first, *inner = module.split(".")
    for root in [str(_PACKAGE)] if first == "assay" else _roots(first):
        place = "/".join((root, *inner))
        for path in (f"{place}.py", f"{place}/__init__.py"):
            try:
                status = os.stat(path)  # noqa: PTH116 - at every start, of dozens of files
            except OSError:
                continue
            return _read(module, path, status.st_mtime_ns, status.st_size)
    return None


def _roots(package: str) -> list[str]:
    """What stands for the first part of a module's name: folders, or the file less its `.py`."""
    spec = util.find_spec(package)
    if spec is None:
        return []
    if spec.submodule_search_locations is not None:
        return list(spec.submodule_search_locations)
    return [spec.origin.removesuffix(".py")] if spec.origin else []


@cache
def _read(module: str, path: str, changed: int, size: int) -> Source:
    """The module's source in the state that it has had since `changed`."""
    return Source(module, path.endswith("/__init__.py"), Path(path).read_bytes())


def of_syntax(text: bytes) -> Imports:
    """What a module imports; nothing if it isn't Python, of which the builder will complain."""
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                yield from ((alias.name, ()) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield "." * node.level + (node.module or ""), tuple(alias.name for alias in node.names)


def of_lines(text: str) -> Imports:
    """The same of a module in this house's style, where a statement has lines of its own, and perhaps more.
    It takes a hundredth of the time, and every start has to wait for it.
    """
    for base, names in _IMPORT.findall(f"\n{text}"):
        found = tuple(_NAME.findall(names))
        yield from [(base, found)] if base else ((name, ()) for name in found)

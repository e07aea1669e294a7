"""Every environment variable, typed and documented in one table. Nothing else reads `os.environ`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from assay.errors import RequestError

T = TypeVar("T")


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One variable: its name, how its text becomes a value, its default and its meaning."""

    name: str
    parse: Callable[[str], T]
    default: Callable[[], T]
    help: str
    want: str

    def get(self) -> T:
        """The value now in force. Raises RequestError when the text can't be parsed."""
        text = os.environ.get(self.name)
        if text is None or text == "":
            return self.default()
        try:
            return self.parse(text)
        except ValueError as error:
            raise RequestError(
                "a setting can't be read",
                place=self.name,
                want=self.want,
                got=repr(text),
                hint=f"unset {self.name} for the default, or see `assay settings`",
            ) from error


def child_environment(without: str, changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment for a child: variables that begin with `without` are left out, `changes` are
    made.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith(without)} | dict(changes)


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return parse


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    return (Path(base) if base else Path.home() / ".cache") / "assay"


CPU_LEVELS = ("host", "avx512", "avx2", "baseline")

CACHE = Setting(
    "ASSAY_CACHE",
    lambda text: Path(text).expanduser(),
    _cache_folder,
    "folder of models and compiled kernels",
    "a path",
)
THREADS = Setting(
    "ASSAY_THREADS",
    _positive,
    lambda: len(os.sched_getaffinity(0)),
    "threads of a team",
    "an integer of at least 1",
)
CPU = Setting(
    "ASSAY_CPU",
    _one_of(*CPU_LEVELS),
    lambda: "host",
    "instruction set that kernels are compiled for",
    " | ".join(CPU_LEVELS),
)
KERNELS = Setting(
    "ASSAY_KERNELS",
    _one_of("native", "reference"),
    lambda: "native",
    "native code, or every node's NumPy reference",
    "native | reference",
)
LOG = Setting(
    "ASSAY_LOG",
    _one_of("debug", "info", "warning", "error"),
    lambda: "warning",
    "least level that is logged",
    "debug | info | warning | error",
)

ALL: tuple[Setting[Path] | Setting[int] | Setting[str], ...] = (CACHE, THREADS, CPU, KERNELS, LOG)

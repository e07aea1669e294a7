"""Every environment variable, typed and documented in one table. Nothing else reads `os.environ`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from assay.errors import RequestError

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Setting(Generic[T_co]):
    """One variable: its name, how its text becomes a value, its default and its meaning."""

    name: str
    parse: Callable[[str], T_co]
    default: Callable[[], T_co]
    help: str
    want: str

    def get(self) -> T_co:
        """The value now in force. Raises RequestError when the text can't be parsed, or nothing is set and
        there is no default here.
        """
        text = os.environ.get(self.name)
        try:
            return self.parse(text) if text else self.default()
        except (ValueError, KeyError) as error:
            rule, got, hint = "a setting has no default here", str(error), f"set {self.name}"
            if text:
                rule, got = "a setting can't be read", repr(text)
                hint = f"unset {self.name} for the default, or see `assay settings`"
            raise RequestError(rule, place=self.name, want=self.want, got=got, hint=hint) from error


def child_environment(without: str, changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment for a child: variables that begin with `without` are left out, `changes` are
    made.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith(without)} | dict(changes)


def gather_metrics(folder: Path) -> None:
    """Let this process's metrics be read with those of others that write to the folder. To be called before
    metrics are imported.
    """
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)


def check() -> None:
    """Read every setting. Raises RequestError for the first that can't be read."""
    for setting in ALL:
        setting.get()


def unknown() -> list[str]:
    """The variables of this environment that have our prefix and that nothing reads."""
    known = {setting.name for setting in ALL}
    return sorted(name for name in os.environ if name.startswith("ASSAY_") and name not in known)


def _positive(text: str) -> int:
    # int() also takes spaces, underscores and the digits of all scripts.
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise ValueError(text)
    return int(text)


def _threads(text: str) -> int:
    if _positive(text) > MOST_THREADS:
        raise ValueError(text)
    return int(text)


def _path(text: str) -> Path:
    if not text.isprintable():
        raise ValueError(f"{text!r} has characters that can't be printed")
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{text!r}: {error}") from error


def _cache_folder() -> Path:
    return _path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "assay"


def group_limits(name: str, mounted: Path = Path("/sys/fs/cgroup")) -> list[str]:
    """What the control groups of this process, a container's say, tell of a limit, such as "cpu.max"."""
    try:
        own = mounted / Path("/proc/self/cgroup").read_text().rpartition("0::/")[2].strip()
    except OSError:
        return []
    found = []
    for group in (own, *own.parents):
        with suppress(OSError):  # none of that name, or not for us
            found.append((group / name).read_text())
    return found


def _processors() -> int:
    """As many as this process may use: by its affinity, and by its groups' share of time, rounded up."""
    shares = (text.split() for text in group_limits("cpu.max"))
    most = [-(-int(quota) // int(period)) for quota, period in shares if quota != "max"]
    return max(1, min([len(os.sched_getaffinity(0)), *most]))


MOST_THREADS = 1024
CPU_LEVELS = ("host", "avx512", "avx2", "baseline")

CACHE = Setting(
    "ASSAY_CACHE",
    _path,
    _cache_folder,
    "folder of models and compiled kernels",
    "a path of printable characters, after ~ a user's name or nothing",
)
THREADS = Setting("ASSAY_THREADS", _threads, _processors, "threads of a team", f"1 to {MOST_THREADS}")
CPU = Setting(
    "ASSAY_CPU",
    {level: level for level in CPU_LEVELS}.__getitem__,
    lambda: "host",
    "instruction set that kernels are compiled for",
    " | ".join(CPU_LEVELS),
)
DEBUG = Setting(
    "ASSAY_DEBUG",
    {"0": False, "1": True}.__getitem__,
    lambda: False,
    "1 shows where an error was raised, as Python's traceback, before its text",
    "0 | 1",
)

ALL: tuple[Setting[object], ...] = (CACHE, THREADS, CPU, DEBUG)

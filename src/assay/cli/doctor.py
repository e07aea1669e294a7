"""`assay doctor`: whether this machine is fit to run models, and what to do where it isn't."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from assay import settings
from assay.cli import interrupt, machine, options
from assay.cli.command import GOOD, NO, Command, Parser
from assay.cli.progress import Bars
from assay.errors import AssayError, HardwareFault, KernelBuildError, RequestError

PACKAGES = ("numpy", "numba", "llvmlite", "tokenizers", "jinja2", "rich")
OK, WRONG, SKIPPED = "ok", "WRONG", "skipped"
LEAST_MEMORY = 1 << 30
"""Bytes that the small models need, with their cache."""


def _declare(parser: Parser) -> None:
    parser.add_argument("--threads", type=options.whole(1), metavar="N", help="of the team (default: all)")
    parser.add_argument("--json", action="store_true", help="for programs")


@dataclass(frozen=True)
class Finding:
    """What one check found: its `state` is OK, WRONG, or SKIPPED where what it rests on is wrong. `fix` says
    what to do.
    """

    name: str
    state: str
    found: str
    fix: str = ""


@dataclass(frozen=True)
class Check:
    """A check: `run` returns what it found or raises; it needs the checks of these names to be good."""

    name: str
    run: Callable[[], str]
    needs: tuple[str, ...] = ()


def _checks(threads: int | None) -> tuple[Check, ...]:
    return (
        Check("python", _python),
        Check("packages", _packages),
        Check("settings", _settings),
        Check("processor", _processor, ("packages", "settings")),
        Check("memory", _memory),
        Check("cache folder", _cache, ("processor",)),
        Check("compiler", _compiler, ("processor",)),
        Check("threads", lambda: _threads(threads or settings.THREADS.get()), ("compiler", "cache folder")),
        Check("models", _models, ("settings",)),
    )


def _run(arguments: argparse.Namespace) -> int:
    findings: dict[str, Finding] = {}
    for check in _checks(arguments.threads):
        finding = findings[check.name] = _examine(check, findings)
        if not arguments.json:
            print(f"{finding.state:<7} {finding.name:<13} {finding.found}", flush=True)
            if finding.fix:
                print(f"{'':<7} {'':<13} {finding.fix}")
    if arguments.json:
        print(json.dumps([vars(finding) for finding in findings.values()]))
    return NO if any(finding.state == WRONG for finding in findings.values()) else GOOD


def _examine(check: Check, before: Mapping[str, Finding]) -> Finding:
    """What a check finds, or that a check that it needs, among those made before, isn't good."""
    unmet = [name for name in check.needs if before[name].state != OK]
    if unmet:
        return Finding(check.name, SKIPPED, f"it needs: {', '.join(unmet)}")
    try:
        return Finding(check.name, OK, check.run())
    except AssayError as error:
        want, got = error.want and f"wanted {error.want}", error.got and f"got {error.got}"
        parts = (error.place, error.rule, want, got)
        return Finding(check.name, WRONG, ": ".join(filter(None, parts)), error.hint)
    except OSError as error:
        return Finding(check.name, WRONG, str(error))


def _settings() -> str:
    settings.check()
    stray = settings.unknown()
    if stray:
        raise RequestError("nothing reads this variable", place=stray[0], hint="see `assay settings`")
    return "all can be read"


def _python() -> str:
    return f"{platform.python_version()}, {sys.executable}"


def _packages() -> str:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            raise HardwareFault(f"{name} is not installed", hint=f"pip install {name}") from None
    return ", ".join(found)


def _processor() -> str:
    from assay.kernels import target

    chosen = target.current()
    widths = [name for name in ("avx512vnni", "avx512f", "avx2", "fma", "f16c") if chosen.has(name)]
    named = f"{chosen.level}: {chosen.cpu} ({', '.join(widths) or 'baseline'})"
    return f"{machine.processor()}; kernels for {named}"


def _memory() -> str:
    memory = machine.memory()
    total, free = memory.get("MemTotal", 0), memory.get("MemAvailable", 0)
    if free < LEAST_MEMORY:
        want, got = (f"{nbytes / 1e9:.1f} GB" for nbytes in (LEAST_MEMORY, free))
        raise HardwareFault("too little memory is free", want=want, got=got, hint="end other programs")
    return f"{free / 1e9:.1f} of {total / 1e9:.1f} GB free"


def _cache() -> str:
    from assay.kernels import cache, target

    folder = cache.folder(target.current())
    with tempfile.NamedTemporaryFile(dir=folder):
        pass
    count = len(list(folder.glob("*.o")))
    return f"{settings.CACHE.get()}, private, {count} kernels compiled for this processor"


def _compiler() -> str:
    """A kernel compiled in a cache of its own, by another process, and run there."""
    with interrupt.raises(), tempfile.TemporaryDirectory(prefix="assay-doctor-") as folder:
        child = subprocess.run(
            [sys.executable, "-m", "assay.cli.doctor"],
            env=settings.child_environment(settings.CACHE.name, {settings.CACHE.name: folder}),
            capture_output=True,
            text=True,
            check=False,
        )
    if child.returncode:
        last = child.stderr.strip().splitlines()[-1:]
        raise KernelBuildError(
            "a kernel was not compiled, or computes wrongly",
            got="".join(last) or f"exit code {child.returncode}",
            hint="install numba and llvmlite anew; free memory or disk space if either ran out",
        )
    return "a new kernel compiles, and computes what NumPy does"


def _threads(threads: int) -> str:
    from assay.runtime.cpu import Cpu

    with Bars() as progress:
        _norm(lambda *words: Cpu(threads, progress=progress.compile).call("norm.rms_norm", *words))
    return f"a team of {threads} runs, and computes what NumPy does"


def _models() -> str:
    from assay.hub import cache
    from assay.hub.catalogue import CATALOGUE

    states = []
    for entry in CATALOGUE.values():
        path = settings.CACHE.get() / "models" / entry.cached_as
        if not path.exists():
            states.append(f"{entry.name} is not here yet (assay pull {entry.name})")
        elif not cache.intact(path, entry.sha256, verify=True):
            rule, hint = f"{entry.name} is damaged", f"assay pull {entry.name} --verify"
            raise HardwareFault(rule, place=str(path), hint=hint)
        else:
            states.append(f"{entry.name} is here and intact")
    return ", ".join(states)


def _norm(call: Callable[..., None]) -> None:
    """Run one kernel by `call` and compare. Raises KernelBuildError."""
    import numpy as np

    rows, width = 5, 100
    x = np.arange(rows * width, dtype=np.float32).reshape(rows, width) - np.float32(250)
    w, y = np.linspace(-1, 1, width, dtype=np.float32), np.zeros_like(x)
    call(x, w, y, rows, 1, width, 1e-5)
    right = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5) * w
    error = float(np.abs(y - right).max())
    if not error < 1e-5:
        raise KernelBuildError("a kernel computes wrongly", want="an error below 1e-5", got=f"{error:g}")


COMMAND = Command(
    "doctor",
    "Check this machine: versions, processor, memory, cache, compiler, threads, models.",
    ("assay doctor", "assay doctor --json"),
    _declare,
    _run,
    "Exit code 1 when something is wrong; what to do stands below it.",
)

if __name__ == "__main__":
    from assay.kernels.call import call

    _norm(lambda *words: call("norm.rms_norm", *words))

"""Check this machine: versions, processor, memory, cache, compiler, threads, models.

Exit code 1 when something is wrong; what to do stands below it.

    assay doctor
    assay doctor --json
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata

from assay import settings
from assay.cli import interrupt, machine, options
from assay.cli.command import GOOD, NO, Report, Values
from assay.cli.progress import Bars
from assay.errors import AssayError, HardwareFault, KernelBuildError, RequestError

PACKAGES = ("numpy", "numba", "llvmlite", "tokenizers", "jinja2", "rich", "llguidance")
OK, WRONG, SKIPPED = "ok", "WRONG", "skipped"
LEAST_MEMORY = 1 << 30
"""Bytes that the small models need, with their cache."""
ARGUMENTS = (options.THREADS, options.JSON)

Check = Callable[[], str]
Finding = dict[str, str]
"""What a check found: its name, its state, and what to do. One is skipped where what it needs isn't OK."""


def checks(threads: int | None) -> dict[str, tuple[Check, tuple[str, ...]]]:
    """Each returns what it found, or raises; beside it the checks before it that it needs."""
    return {
        "python": (lambda: f"{platform.python_version()}, {sys.executable}", ()),
        "packages": (_packages, ()),
        "settings": (_settings, ()),
        "processor": (_processor, ("packages", "settings")),
        "memory": (_memory, ()),
        "cache folder": (_cache, ("processor",)),
        "compiler": (_compiler, ("processor",)),
        "threads": (lambda: _threads(threads or settings.THREADS.get()), ("compiler", "cache folder")),
        "models": (_models, ("settings",)),
    }


def run(arguments: Values) -> Report:
    findings: dict[str, Finding] = {}
    for name, (check, needs) in checks(arguments.threads).items():
        unmet = [each for each in needs if findings[each]["state"] != OK]
        found = (SKIPPED, f"it needs: {', '.join(unmet)}", "") if unmet else examine(check)
        findings[name] = dict(zip(("name", "state", "found", "fix"), (name, *found), strict=True))
        if not arguments.json:
            print(f"{found[0]:<7} {name:<13} {found[1]}", flush=True)
            if found[2]:
                print(f"{'':<21} {found[2]}")
    wrong = any(finding["state"] == WRONG for finding in findings.values())
    return Report([*findings.values()], (), NO if wrong else GOOD)


def examine(check: Check) -> tuple[str, str, str]:
    """The state that a check finds, what it says of it, and what to do."""
    try:
        return OK, check(), ""
    except AssayError as error:
        want, got = error.want and f"wanted {error.want}", error.got and f"got {error.got}"
        return WRONG, ": ".join(filter(None, (error.place, error.rule, want, got))), error.hint
    except OSError as error:
        return WRONG, str(error), ""


def _settings() -> str:
    settings.check()
    stray = settings.unknown()
    if stray:
        raise RequestError("nothing reads this variable", place=stray[0], hint="see `assay settings`")
    return "all can be read"


def _packages() -> str:
    try:
        return ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    except metadata.PackageNotFoundError as error:
        raise HardwareFault(f"{error.name} is not installed", hint=f"pip install {error.name}") from None


def _processor() -> str:
    from assay.kernels import target

    chosen = target.current()
    widths = [name for name in ("avx512vnni", "avx512f", "avx2", "fma", "f16c") if chosen.has(name)]
    named = f"{chosen.level}: {chosen.cpu} ({', '.join(widths) or 'baseline'})"
    return f"{machine.processor()}; kernels for {named}"


def _memory() -> str:
    total, free = machine.memory("MemTotal"), machine.memory("MemAvailable")
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
        command = [sys.executable, "-m", "assay.cli.doctor"]
        environment = settings.child_environment(settings.CACHE.name, {settings.CACHE.name: folder})
        child = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if child.returncode:
        got = "".join(child.stderr.strip().splitlines()[-1:]) or f"exit code {child.returncode}"
        hint = "install numba and llvmlite anew; free memory or disk space if either ran out"
        raise KernelBuildError("a kernel was not compiled, or computes wrongly", got=got, hint=hint)
    return "a new kernel compiles, and computes what NumPy does"


def _threads(threads: int) -> str:
    from assay.runtime.cpu import Cpu

    with Bars() as progress:
        _norm(lambda *words: Cpu(threads, progress=progress.compile).call("norm.rms_norm", *words))
    return f"a team of {threads} runs, and computes what NumPy does"


def _models() -> str:
    from assay.hub.catalogue import CATALOGUE
    from assay.hub.pull import intact

    states = []
    for entry in CATALOGUE.values():
        path, state = settings.CACHE.get() / "models" / entry.cached_as, "is here and intact"
        if not path.exists():
            state = f"is not here yet (assay pull {entry.name})"
        elif not intact(entry, path, verify=True):
            rule, hint = f"{entry.name} is damaged", f"assay pull {entry.name} --verify"
            raise HardwareFault(rule, place=str(path), hint=hint)
        states.append(f"{entry.name} {state}")
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


if __name__ == "__main__":
    from assay.kernels.call import call

    _norm(lambda *words: call("norm.rms_norm", *words))

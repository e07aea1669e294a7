"""How long a person waits: from starting `assay run` to the first character of the answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from assay import hub, settings
from assay.errors import HardwareFault

PROMPT = "Why is the sky blue?"


def later(threads: int, rounds: int) -> list[float]:
    """Seconds to the first character, everything in the cache, ascending."""
    hub.pull("smollm2")
    _run(threads, settings.CACHE.get())
    return sorted(_run(threads, settings.CACHE.get())[0] for _ in range(rounds))


def first(threads: int) -> tuple[float, float]:
    """Seconds to the first character and to the end, the model there and no kernel ever compiled."""
    model = hub.pull("smollm2").parent
    with tempfile.TemporaryDirectory(prefix="bench-", dir=settings.CACHE.get()) as folder:
        shutil.copytree(model, Path(folder) / "models" / model.name, copy_function=os.link)
        return _run(threads, Path(folder))


def _run(threads: int, cache: Path) -> tuple[float, float]:
    """Seconds to the first byte of output, and to the end."""
    # Python keeps its own compiled files, as it does for everyone who hasn't forbidden it.
    changes = {settings.CACHE.name: str(cache), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "assay", "run", "smollm2", PROMPT, "--max-tokens", "16"]
    command += ["--threads", str(threads)]
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        env=settings.child_environment("PYTHONDONTWRITEBYTECODE", changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout and child.stderr
        byte = os.read(child.stdout.fileno(), 1)
        waited = time.perf_counter() - began
        _, said = child.communicate()
    if child.returncode or not byte:
        raise HardwareFault("assay run failed", got=said.decode(errors="replace")[-2000:])
    return waited, time.perf_counter() - began


def text(times: list[float]) -> str:
    """Least, median and most of several times."""
    return f"{times[0]:.2f} / {median(times):.2f} / {times[-1]:.2f} s"

"""All kernels compiled for a level of processors, whatever this one is, with their assembly."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import assay.kernels
from assay.kernels import build, cache, target
from assay.ops import registry

CHILD = Path(__file__).with_name("listing_child.py")
PROCESSES = 2
_ENTRIES = (["args", "tid", "nthreads"], ["control", "tid", "nthreads"])


def kernel_names() -> tuple[str, ...]:
    """Every function of assay.kernels that has a kernel's parameters, and the block functions that operators
    need.
    """
    stems = dict.fromkeys(operator.pointwise for operator in registry.all_operators() if operator.pointwise)
    found = [f"blocks.{stem}_float32" for stem in stems]
    for path in sorted(Path(assay.kernels.__file__).parent.glob("*.py")):
        module = importlib.import_module(f"assay.kernels.{path.stem}")
        for name, value in vars(module).items():
            if inspect.isfunction(value) and list(inspect.signature(value).parameters) in _ENTRIES:
                found.append(f"{path.stem}.{name}")
    return tuple(found)


@dataclass(frozen=True)
class Listing:
    """A kernel's assembly, in the syntax of AT&T."""

    text: str

    @property
    def registers(self) -> frozenset[str]:
        """The kinds of vector registers in it: "xmm", "ymm", "zmm"."""
        return frozenset(re.findall(r"%([xyz]mm)\d", self.text))

    @property
    def instructions(self) -> frozenset[str]:
        """The mnemonics in it."""
        return frozenset(re.findall(r"^\t([a-z]\w*)", self.text, re.MULTILINE))

    @property
    def multiply_adds(self) -> frozenset[str]:
        """Its instructions of the FMA extension."""
        return frozenset(name for name in self.instructions if re.match(r"vfn?m(add|sub)", name))


@dataclass(frozen=True)
class Compiled:
    """Kernels by name: object files and listings."""

    objects: Mapping[str, Path]
    listings: Mapping[str, Listing]


def compiled(level: str) -> Compiled:
    """All kernels for that level, from the cache's folder for it; what isn't there is compiled first."""
    aim = target.LEVELS[level]
    names = kernel_names()
    objects = cache.paths(names, aim)
    texts = {name: path.with_suffix(".s") for name, path in objects.items()}
    missing = [name for name in names if not (objects[name].exists() and texts[name].exists())]
    children = []
    for first in range(min(PROCESSES, len(missing))):
        child = subprocess.Popen(
            [sys.executable, str(CHILD)], stdin=subprocess.PIPE, text=True, env=build.environment(aim)
        )
        assert child.stdin
        lines = (f"{name}\t{objects[name]}\t{texts[name]}\n" for name in missing[first::PROCESSES])
        child.stdin.writelines(lines)
        child.stdin.close()
        children.append(child)
    assert [child.wait() for child in children] == [0] * len(children)
    return Compiled(objects, {name: Listing(path.read_text()) for name, path in texts.items()})


def runs(level: str) -> bool:
    """Whether this processor has what the level needs."""
    return all(target.host().has(part[1:]) for part in target.LEVELS[level].features.split(","))


def numpy_features() -> str:
    """NumPy's own dispatch that this processor has and a child can do without."""
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    return " ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name))


def digests(level: str, *command: str) -> dict[str, str]:
    """What a child of that level prints, for what Python is told to run; NumPy and OpenBLAS get another
    level too.
    """
    environment = {
        **os.environ,
        "ASSAY_CPU": level,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NPY_DISABLE_CPU_FEATURES": numpy_features() if level == "baseline" else "",
        "OPENBLAS_CORETYPE": "Prescott" if level == "baseline" else "Haswell",
    }
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout)
    return found

"""Compiled kernels on disk and in memory: a name becomes the address of machine code.

The folder's name holds a digest of everything that decides the code (kernel and simd sources, versions,
processor), so an edit or an upgrade never runs stale code. The folder is the user's alone, because it is
loaded as code.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from importlib import util
from pathlib import Path
from typing import Protocol

from assay import settings
from assay.errors import HardwareFault, KernelBuildError
from assay.kernels import target as targets
from assay.kernels.names import module_of, symbol_of

Progress = Callable[[int, int, str], None]
"""Called with (kernels ready, kernels wanted, name of the newest): at the start too, with no name."""

_PACKAGE = Path(__file__).parent.parent
_lock = threading.RLock()
_loaded: dict[tuple[Path, str], int] = {}


@cache
def _sources_digest() -> str:
    digest = hashlib.sha256()
    for folder in ("simd", "kernels"):
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for package in ("numba", "llvmlite"):
        digest.update(_version(package))
    digest.update(platform.python_version().encode())
    return digest.hexdigest()


def _version(package: str) -> bytes:
    """What says which version of a package is installed; to import it, or to ask importlib.metadata, takes
    much longer.
    """
    spec = util.find_spec(package)
    if spec is None or spec.origin is None:
        raise KernelBuildError(f"{package} is not installed", hint=f"pip install {package}")
    return Path(spec.origin).with_name("_version.py").read_bytes()


def folder(target: targets.Target) -> Path:
    """Where the kernels for `target` lie; made on first use, readable by this user only."""
    digest = hashlib.sha256(f"{_sources_digest()} {target.cpu} {target.features}".encode()).hexdigest()[:24]
    path = settings.CACHE.get() / "kernels" / digest
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise HardwareFault(
            "the kernel cache can't be made",
            place=str(path),
            got=error.strerror or str(error),
            hint=f"let {settings.CACHE.name} name a folder that you can write",
        ) from error
    status = path.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise HardwareFault(
            "the kernel cache may be written by others, so its code is not loaded",
            place=str(path),
            want="a folder that only this user can write",
            got=f"owner {status.st_uid}, mode {status.st_mode & 0o777:o}",
            hint=f"chmod 700 {path}, or set {settings.CACHE.name} to a folder of your own",
        )
    return path


def objects(
    names: Iterable[str], target: targets.Target, progress: Progress | None = None
) -> dict[str, Path]:
    """The object file of each kernel, compiled first where it isn't cached. Raises KernelBuildError.

    `target` need not be this processor: nothing is loaded.
    """
    place = folder(target)
    files = {name: _object(place, name) for name in names}
    with _lock:
        missing = [name for name, file in files.items() if not file.exists()]
        if missing:
            _build(place, target, missing, len(files), progress)
    return files


def addresses(names: Iterable[str], progress: Progress | None = None) -> dict[str, int]:
    """The entry address of each kernel, compiled first where it isn't cached. Raises KernelBuildError."""
    wanted = list(dict.fromkeys(names))
    target = targets.current()
    place = folder(target)
    with _lock:
        new = [name for name in wanted if (place, name) not in _loaded]
        if new:
            engine = _engine()
            for file in objects(new, target, progress).values():
                engine.add_object_file(str(file))
            for name in new:
                _loaded[place, name] = engine.get_function_address(symbol_of(name))
        return {name: _loaded[place, name] for name in wanted}


def _source_size(name: str) -> int:
    spec = util.find_spec(module_of(name)[0])
    return Path(spec.origin).stat().st_size if spec and spec.origin else 0


def _object(place: Path, name: str) -> Path:
    """The object file; a user's kernel has its own source's digest in the name."""
    if ":" not in name:
        return place / f"{name}.o"
    spec = util.find_spec(module_of(name)[0])
    source = Path(spec.origin).read_bytes() if spec and spec.origin else b""
    return place / f"{name.replace(':', '.')}-{hashlib.sha256(source).hexdigest()[:16]}.o"


class _Linker(Protocol):
    """What is used of llvmlite's execution engine."""

    def add_object_file(self, path: str) -> None: ...

    def get_function_address(self, symbol: str) -> int: ...


@cache
def _engine() -> _Linker:
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # llvmlite's memory manager keeps the sections of one object together. LLVM's own may put them on either
    # side of a pool's addresses, farther apart than 32 bits reach, and then ends the process.
    linker: _Linker = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)
    return linker


def _environment(target: targets.Target) -> dict[str, str]:
    """The builder's environment: its Numba sees our processor and none of the caller's Numba settings."""
    path = os.pathsep.join([str(_PACKAGE.parent), *(entry for entry in sys.path if entry)])
    # Optimised once, by the builder, when all that a kernel calls is linked into it.
    numba = {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features, "NUMBA_OPT": "0"}
    return settings.child_environment("NUMBA_", {**numba, "PYTHONPATH": path})


def _build(
    place: Path, target: targets.Target, missing: list[str], wanted: int, progress: Progress | None
) -> None:
    """Compile `missing` in as many child processes as there are processors."""
    # The long ones first, so that the processes end together; a long source is a good guess.
    queue = deque(sorted(missing, key=_source_size, reverse=True))
    failures: list[str] = []
    ready = wanted - len(missing)
    report = threading.Lock()
    if progress:
        progress(ready, wanted, "")

    def work() -> None:
        nonlocal ready
        command = [sys.executable, "-m", "assay.kernels.build"]
        with subprocess.Popen(
            command,
            env=_environment(target),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdin and child.stdout and child.stderr
            try:
                while queue and not failures:
                    name = queue.popleft()
                    child.stdin.write(f"{name}\t{_object(place, name)}\n")
                    child.stdin.flush()
                    if child.stdout.readline().strip() != name:
                        failures.append(f"{name}: {child.stderr.read().strip()}")
                        return
                    with report:
                        ready += 1
                        if progress:
                            progress(ready, wanted, name)
            except (IndexError, BrokenPipeError):
                return
            finally:
                child.stdin.close()

    workers = [threading.Thread(target=work) for _ in range(min(len(missing), os.cpu_count() or 1))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    left = [name for name in missing if not _object(place, name).exists()]
    if left:
        raise KernelBuildError(
            f"{len(left)} of {len(missing)} kernels did not compile",
            place=left[0],
            want="machine code",
            got=failures[0][-3000:] if failures else "the compiler's process ended early",
            hint="`assay doctor` tests the compiler; free memory or disk space if either ran out",
        )

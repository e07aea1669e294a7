"""How a pull fails: the errors that more than one of its steps raises."""

from __future__ import annotations

import difflib
import errno
import re
import shutil
from pathlib import Path

from assay.errors import FormatError, HardwareFault, ModelNotFoundError
from assay.hub.catalogue import CATALOGUE

_OUT_OF_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def unexpected(place: str, what: str, want: str, got: str) -> FormatError:
    """What was fetched isn't what the catalogue knows."""
    hint = "the index served another file than the catalogue knows: don't use it, and see `pip config list`"
    return FormatError(f"the {what} isn't the expected one", place=place, want=want, got=got, hint=hint)


def device_fault(error: OSError, folder: Path | None) -> HardwareFault:
    """The typed form of an error of the disk or the cache folder."""
    rule, hint = "the cache folder can't be used", "let ASSAY_CACHE name another folder"
    if error.errno in _OUT_OF_SPACE:
        rule, hint = "no space left on the disk", f"free some space, or {hint}"
    place, got = str(error.filename or folder or ""), error.strerror or str(error)
    return HardwareFault(rule, place=place, got=got, hint=hint)


def check_space(folder: Path, needed: int) -> None:
    """Raise HardwareFault, with the figures, unless the disk of `folder` has `needed` bytes free."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        fault = device_fault(OSError(errno.ENOSPC, f"{free:,} bytes free"), folder)
        fault.want = f"{needed:,} bytes"
        raise fault


_WAYS = "a path to a .gguf file, pypi:package/path-in-wheel, or a name: " + ", ".join(CATALOGUE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def refuse_unreadable(name: str) -> None:
    """Raise ModelNotFoundError for a name that can't be one: an empty one, a URL."""
    if not name.strip():
        raise ModelNotFoundError("the name of the model is empty", want=_WAYS, got=repr(name))
    if _URL.match(name):
        raise ModelNotFoundError(
            "URLs aren't read", place=name, want=_WAYS, got="a URL", hint="fetch the file, and give its path"
        )


def not_found(rule: str, place: str, wanted: str, known: list[str]) -> ModelNotFoundError:
    """Nothing answers to `wanted`; the hint says which of `known` are near, or what there is."""
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(near) + "?"
    elif known:
        hint = "there is " + ", ".join(sorted(known)[:20])
    else:
        hint = f"give {_WAYS}"
    return ModelNotFoundError(rule, place=place, got=repr(wanted), hint=hint)

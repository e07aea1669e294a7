"""Files that are written: nothing else is lost by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from assay.errors import RequestError


@contextmanager
def writing(path: str | Path, name: str, *, replace: bool, hint: str = "") -> Iterator[Path]:
    """`with writing(path, "OUT", replace=False) as path:` nothing is there or, to `replace`, a file. Raises
    RequestError for another path, with the hint if there is a file, and where the body can't write.
    """
    place, rule = f"{name} {path}", "it can't be written"
    try:
        there, path = False, Path(path)
        with suppress(FileNotFoundError):
            there = bool(path.lstat())
        file = path.is_file()
    except (OSError, TypeError, ValueError) as error:
        raise RequestError(rule, place=place, want="a file's path", got=str(error)[:200]) from error
    if there and not file:
        raise RequestError("something that isn't a file is there already", place=place)
    if there and not replace:
        raise RequestError("a file is there already", place=place, hint=hint)
    try:
        yield path
    except OSError as error:
        raise RequestError(rule, place=place, got=error.strerror or str(error)) from error

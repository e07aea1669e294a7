"""Standard input, output and error, in whatever state they were handed over."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import TextIO

from assay.errors import HardwareFault


def prepare() -> None:
    """Make the streams fit to be used. Raises HardwareFault where standard output is closed.

    A name or a token that the terminal's encoding lacks is shown escaped rather than not at all.
    """
    # In this order each takes the place of the closed one, which else the next file opened would take.
    if sys.stdin is None:
        sys.stdin = _nowhere()
    closed = sys.stdout is None
    if closed:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    if closed:
        raise HardwareFault(
            "it is closed", place="standard output", hint="send it to a file, or to /dev/null"
        )
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _nowhere() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_RDWR), "r+", buffering=1)


def fault() -> HardwareFault | None:
    """Why standard output or error takes nothing, or None if they do: each is tried with a line's end.

    What failed before needn't be held any more, so that to flush again could succeed.
    """
    for stream, place in ((sys.stdout, "standard output"), (sys.stderr, "standard error")):
        try:
            stream.flush()
            os.write(stream.fileno(), b"\n")
        except OSError as error:
            silence(stream)
            return HardwareFault("it can't be written to", place=place, got=error.strerror or str(error))
    return None


def silence(stream: TextIO) -> None:
    """Let a stream lead nowhere: what it still holds must not fail again when it is closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def complain(text: str) -> None:
    """Print on standard error, as well as that goes."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
        return
    silence(sys.stderr)

"""Standard input, output and error, in whatever state they were handed over."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from assay.errors import HardwareFault, RequestError


def prepare() -> None:
    """Make the streams fit to be used. Raises HardwareFault where standard output is closed.

    A name or a token that the terminal's encoding lacks is shown escaped rather than not at all.
    """
    closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        # In this order each takes the place of the closed one, which else the next file opened would take.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), "r+", buffering=1))
    if closed:
        hint = "send it to a file, or to /dev/null"
        raise HardwareFault("it is closed", place="standard output", hint=hint)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


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


def read(name: str) -> str:
    """The text of a file, or of standard input if the name is -. Raises RequestError for what is no text."""
    try:
        return text(sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes())
    except (OSError, ValueError) as error:
        raise RequestError("it can't be read", got=getattr(error, "strerror", None) or str(error)) from None


def text(raw: bytes) -> str:
    """What these bytes mean in UTF-8. Raises RequestError."""
    try:
        return raw.decode()
    except UnicodeError as error:
        raise RequestError("it is not text", want="UTF-8", got=str(error)) from None


def complain(text: str) -> None:
    """Print on standard error, as well as that goes."""
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)
        return
    silence(sys.stderr)

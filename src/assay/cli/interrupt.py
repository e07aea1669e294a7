"""Ctrl-C: it ends the process with a newline and exit code 130, whatever the process was at.

No exception is raised for that: amid an import or in a library's callback it would become another error.
Where there is something to put in order first, `raises` makes it a KeyboardInterrupt. This is the first thing
that a command imports, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

    Handler = Callable[[int, FrameType | None], object]

INTERRUPTED = 130
"""The exit code, as shells give it for a process that SIGINT ended."""
_SHOW_CURSOR = b"\x1b[?25h"
_cursor_hidden = False


def end_at_once() -> None:
    """From now on Ctrl-C ends the process, unless whoever started it wants Ctrl-C ignored."""
    if not _foreign(signal.getsignal(signal.SIGINT)):
        signal.signal(signal.SIGINT, end)


def _foreign(handler: object) -> bool:
    """Whether Ctrl-C is ignored, or handled by what isn't Python: either stays so."""
    return handler is signal.SIG_IGN or handler is None


def end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """End the process, without waiting for threads that compile."""
    try:
        os.write(2, _SHOW_CURSOR + b"\n" if _cursor_hidden else b"\n")
    finally:
        os._exit(INTERRUPTED)


def hide_cursor(hidden: bool) -> None:
    """Say that the terminal's cursor is hidden, and must be shown again at the end; or that it isn't."""
    global _cursor_hidden
    _cursor_hidden = hidden


class Calls:
    """`with Calls(function):` Ctrl-C calls the function."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        if not _foreign(self._before):
            signal.signal(signal.SIGINT, self._handler)

    def __exit__(self, *error: object) -> None:
        if not _foreign(self._before):
            signal.signal(signal.SIGINT, self._before)


def raises() -> Calls:
    """`with raises():` Ctrl-C is a KeyboardInterrupt."""
    return Calls(signal.default_int_handler)

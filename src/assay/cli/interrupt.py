"""Ctrl-C: it ends the process with a newline and exit code 130, whatever the process was at. In native code,
where Python calls no handler, a thread that waits for the signal does it.

No exception is raised for that: amid an import or in a library's callback it would become another error.
Where there is something to put in order first, `raises` makes it a KeyboardInterrupt.
"""

from __future__ import annotations

import _thread
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""The exit code, as shells give it for a process that SIGINT ended."""
FOREIGN = (signal.SIG_IGN, None)
"""Handlers that stay: Ctrl-C is ignored, or handled by what isn't Python."""
_ending = _thread.allocate_lock()
last_words = b"\n"
"""What the process then writes on standard error: also what shows the cursor, while that is hidden."""


def end_at_once() -> None:
    """From now on Ctrl-C ends the process, unless whoever started it wants Ctrl-C ignored."""
    if signal.getsignal(signal.SIGINT) not in FOREIGN:
        signal.signal(signal.SIGINT, end)
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        _thread.start_new_thread(_watch, (reader,))


def _watch(reader: int) -> None:
    """End the process when SIGINT comes, if it is to end then."""
    while number := os.read(reader, 1):
        if number[0] == signal.SIGINT and signal.getsignal(signal.SIGINT) is end:
            end()


def end(number: int = signal.SIGINT, frame: FrameType | None = None) -> NoReturn:
    """End the process, without waiting for threads that compile."""
    _ending.acquire()  # once: whoever comes second waits for the end
    try:
        os.write(2, last_words)
    finally:
        os._exit(INTERRUPTED)


@contextmanager
def calls(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """`with calls(function):` Ctrl-C calls the function."""
    before = signal.getsignal(signal.SIGINT)
    if before in FOREIGN:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def raises() -> AbstractContextManager[None]:
    """`with raises():` Ctrl-C is a KeyboardInterrupt."""
    return calls(signal.default_int_handler)

"""Finds the command, runs it, and turns what goes wrong into a text and an exit code.

Only the command's own module is imported. It is argparse because that costs a start 15 ms where typer and
rich cost 150; rich is imported when a progress bar is shown.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from assay import __version__
from assay.cli.command import GOOD, NO, USAGE, Command, near
from assay.errors import AssayError, RequestError

COMMANDS = (
    "run", "chat", "show", "pull", "contract", "bench llm", "bench kernels", "settings", "doctor",
)  # fmt: skip
INTERRUPTED = 130


def command(name: str) -> Command:
    """The command of that name, which stands in the module of that name."""
    found: Command = import_module(f"assay.cli.{name.replace(' ', '_')}").COMMAND
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default this process's, and return its exit code.

    A Ctrl-C that the command leaves to us ends the process here, without waiting for threads that compile.
    """
    try:
        return _guarded(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        print(file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)


def _guarded(arguments: list[str]) -> int:
    # A name or a token that the terminal's encoding lacks is shown escaped rather than not at all.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            code = _dispatch(arguments)
        except SystemExit as stop:
            code = int(str(stop.code or GOOD))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has seen enough. What is still buffered must not fail again when the stream is closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return GOOD
    except AssayError as error:
        if _debugging():
            import traceback

            traceback.print_exc()
        print(f"assay: {error}", file=sys.stderr)
        return USAGE if isinstance(error, RequestError) else NO


def _debugging() -> bool:
    from assay import settings

    try:
        return settings.LOG.get() == "debug"
    except RequestError:
        return False


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview(COMMANDS), end="")
        return GOOD if arguments else USAGE
    if arguments[0] in ("-V", "--version"):
        print(f"assay {__version__}")
        return GOOD
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if name in COMMANDS:
            chosen = command(name)
            return chosen.run(chosen.parser().read(arguments[words:]))
    family = [name for name in COMMANDS if name.startswith(f"{arguments[0]} ")]
    if family and (len(arguments) == 1 or arguments[1] in ("-h", "--help")):
        print(_overview(family), end="")
        return GOOD if len(arguments) > 1 else USAGE
    wanted = " ".join(arguments[:2] if family else arguments[:1])
    print(f"assay: no such command: {wanted}{near(wanted, COMMANDS)}\n  hint   assay --help", file=sys.stderr)
    return USAGE


def _overview(names: Sequence[str]) -> str:
    width = max(map(len, names))
    lines = [f"  {name:<{width}}  {command(name).summary}" for name in names]
    return "\n".join(
        [
            "usage: assay COMMAND …",
            "",
            *lines,
            "",
            "assay COMMAND --help explains one command, assay --version says which Assay this is.",
            "Exit codes: 0 good; 1 the answer is no, or a model is at fault; 2 the command line is.",
            "",
        ]
    )

"""Finds the command, runs it, and turns what goes wrong into a text and an exit code.

Only the command's own module is imported. It is argparse because that costs a start 15 ms where typer and
rich cost 150; rich is imported when a progress bar is shown.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from assay import __version__, settings
from assay.cli import streams
from assay.cli.command import CODES, GOOD, NO, USAGE, Command, Report
from assay.cli.text import table
from assay.errors import AssayError, ModelNotFoundError, RequestError, near

COMMANDS = (
    "run", "chat", "embed", "eval", "check", "show", "infer", "pull", "merge", "quantize", "contract",
    "serve", "bench llm", "bench onnx", "bench kernels", "settings", "doctor",
)  # fmt: skip
UNCHECKED = ("settings", "doctor")
"""Commands that tell which settings can't be read; the others refuse to run with such."""


def command(name: str) -> Command:
    """The command of that name, which stands in the module of that name."""
    return Command(name, import_module(f"assay.cli.{name.replace(' ', '_')}"))


def execute(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Raises KeyboardInterrupt."""
    try:
        code = _code(list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has seen enough.
        streams.silence(sys.stdout)
        return GOOD
    except OSError:
        fault = streams.fault()
        if fault is None:
            raise
        streams.complain(f"assay: {fault}")
        return NO


def _code(arguments: list[str]) -> int:
    try:
        streams.prepare()
        return _dispatch(arguments)
    except SystemExit as stop:
        return int(str(stop.code or GOOD))
    except AssayError as error:
        with suppress(RequestError):  # of a setting that can't be read
            if settings.DEBUG.get():
                import traceback

                streams.complain("".join(traceback.format_exception(error)).rstrip())
        streams.complain(f"assay: {error}")
        return USAGE if isinstance(error, RequestError | ModelNotFoundError) else NO
    except MemoryError as error:
        streams.complain(f"assay: memory gave out\n  got    {error or 'no room'}")
        return NO


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        return _overview(COMMANDS, GOOD if arguments else USAGE)
    if arguments[0] in ("-v", "-V", "--version"):
        print(f"assay {__version__}")
        return GOOD
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if name in COMMANDS:
            chosen = command(name)
            values = chosen.read(arguments[words:])
            if name not in UNCHECKED:
                settings.check()
            report = chosen.run(values)
            return _tell(report, "json" in values and values.json) if report else GOOD
    family = [name for name in COMMANDS if name.startswith(f"{arguments[0]} ")]
    if family and (len(arguments) == 1 or arguments[1] in ("-h", "--help")):
        return _overview(family, GOOD if len(arguments) > 1 else USAGE, arguments[0])
    streams.complain(_unknown(arguments, family))
    return USAGE


def _tell(report: Report, as_json: bool) -> int:
    if as_json:
        print(json.dumps(report.data, ensure_ascii=sys.stdout.encoding != "utf-8"))
    else:
        for line in report.text:
            print(line)
    return report.code


def _unknown(arguments: Sequence[str], family: Sequence[str]) -> str:
    """What to say of a command that there isn't; `family` are those that begin with its first word."""
    if not family:
        word = arguments[0]
        return f"assay: no such command: {word}{near(word, COMMANDS, '; ')}\n  hint   assay --help"
    first, second = arguments[:2]
    close = near(second, [name.partition(" ")[2] for name in family], "; ", f"{first} ")
    known = "" if close else f"there is {' and '.join(family)}; "
    return f"assay: no such command: {first} {second}{close}\n  hint   {known}assay {first} --help"


def _overview(names: Sequence[str], code: int, family: str = "") -> int:
    words = f"assay {family} COMMAND" if family else "assay COMMAND"
    print(f"usage: {words} …\n")
    print(*table(((f"  {name}", command(name).summary) for name in names), left=2), sep="\n")
    print(f"\n{words} --help explains one command, assay --version says which Assay this is.")
    print(f"Exit codes: {CODES}.")
    return code

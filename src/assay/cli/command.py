"""What a command is, and the parser of its arguments."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from assay.cli import streams

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

GOOD, NO, USAGE = 0, 1, 2
"""Exit codes: see `CODES`."""
CODES = (
    "0 good; 1 the answer is no, or a model or this machine is at fault; "
    "2 the command line or the request is; 130 Ctrl-C"
)
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")


def near(word: str, known: Iterable[str], family: str = "") -> str:
    """`; did you mean X?` for names, of a family, that a word which is none of them begins, or that are close
    to it; else nothing.
    """
    names = list(known)
    found = [name for name in names if word.strip("-") and name.startswith(word)][:3]
    if not found:
        import difflib

        found = difflib.get_close_matches(word, names, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(family + name for name in found)}?" if found else ""


class Parser(argparse.ArgumentParser):
    """Reads one command's arguments. What it can't read ends with code 2, what was wanted, and a hint."""

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The arguments' values. Raises SystemExit."""
        before = ""
        for word in arguments:
            if word == "--":
                break
            self._refuse_unknown(word, before)
            before = word
        found, unknown = self.parse_known_args(arguments)
        if unknown:
            hint = "quote a prompt that has spaces" if self._takes_prompt else ""
            self.error(f"one argument too many: {unknown[0]!r}", hint)
        return found

    @property
    def _takes_prompt(self) -> bool:
        return any(action.dest == "prompt" and not action.option_strings for action in self._actions)

    def _refuse_unknown(self, word: str, before: str) -> None:
        """Raise SystemExit for a word that looks like an option and is none."""
        option = word.partition("=")[0]
        known = self._option_string_actions
        if option in known or option in ("", "-") or not option.startswith("-"):
            return
        if " " in option or _NUMBER.fullmatch(word):
            return
        owner = known.get(before)
        if owner is not None and owner.nargs is None:
            self.error(f"{before}: a value is missing", f"{before}={word} if that is the value")
        close = near(option, known)
        dashed = f"-- goes before a prompt that begins with -: {self.prog} MODEL -- {word}"
        self.error(f"no such option: {option}{close}", dashed if self._takes_prompt and not close else "")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """Print the help; argparse's own hides that it couldn't."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str, hint: str = "") -> NoReturn:
        """Say what is wrong, argparse's own texts in the form of all errors. Raises SystemExit."""
        hint = f"{hint}; {self.prog} --help" if hint else f"{self.prog} --help"
        streams.complain(f"{self.prog}: {_plain(message)}\n  hint   {hint}")
        raise SystemExit(USAGE)


def _plain(message: str) -> str:
    place, mark, what = message.removeprefix("argument ").partition(": ")
    if place == "the following arguments are required":
        return f"not given: {what}"
    if what == "expected one argument":
        what = "a value is missing"
    elif what.startswith("ignored explicit argument"):
        what = f"this takes no value: {what.rpartition(' ')[2]}"
    return f"{place}{mark}{what}"


@dataclass(frozen=True)
class Command:
    """One command. `declare` adds its arguments to a parser, `run` does it and returns the exit code."""

    name: str
    summary: str
    examples: tuple[str, ...]
    declare: Callable[[Parser], None]
    run: Callable[[argparse.Namespace], int]
    details: str = ""

    def parser(self) -> Parser:
        """The parser of its arguments; its help has the details and the examples."""
        lines = [f"  {example}" for example in self.examples]
        parser = Parser(
            prog=f"assay {self.name}",
            description=f"{self.summary}\n\n{self.details}".strip(),
            epilog="\n".join(["examples:", *lines]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.declare(parser)
        return parser

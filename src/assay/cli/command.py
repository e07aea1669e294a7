"""What a command is: its explanation, its arguments, and what it reports."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NoReturn

from assay.cli import streams
from assay.errors import RequestError, near

GOOD, NO, USAGE = 0, 1, 2
"""Exit codes: see `CODES`."""
CODES = (
    "0 good; 1 the answer is no, or a model or this machine is at fault; "
    "2 the command line or the request is; 130 Ctrl-C"
)
Values = argparse.Namespace
"""What was given for the arguments, by their names."""
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_MARK = " "
"""Before a value: argparse takes it for one, whatever it is."""


@dataclass(frozen=True)
class Argument:
    """An option, whose `name` begins with dashes, or an argument in its place. An option without `metavar`
    takes no value: it is True if it is given, and where that is the default, --no- makes it False.
    """

    name: str
    help: str
    metavar: str = ""
    type: Callable[[str], object] = str
    """Makes a value of a text, or raises RequestError."""
    default: object = None
    nargs: str | None = None
    repeated: bool = False

    def read(self, text: str) -> object:
        """The value that a text is."""
        try:
            return self.type(text.removeprefix(_MARK))
        except RequestError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add it to a parser."""
        if self.name.startswith("-") and not self.metavar:
            action = argparse.BooleanOptionalAction if self.default else "store_true"
            parser.add_argument(self.name, action=action, default=bool(self.default), help=self.help)
            return
        default = ",".join(map(str, self.default)) if isinstance(self.default, tuple) else self.default
        more = "" if default is None else f" (default: {default})"
        parser.add_argument(
            self.name,
            action="append" if self.repeated else "store",
            nargs=self.nargs,
            type=self.read,
            metavar=self.metavar or self.name.upper(),
            default=self.default,
            help=self.help + ("; may be repeated" if self.repeated else more),
        )


@dataclass(frozen=True)
class Report:
    """What a command found: `data` is for --json; without it the lines of `text` are printed."""

    data: object
    text: Iterable[str]
    code: int = GOOD


class Command(argparse.ArgumentParser):
    """A command is a module. Its docstring explains it: a summary, a line; details; examples. It has
    `ARGUMENTS`, and `run`, which returns what is to be printed, or None where it has done that itself.

    What can't be read of its arguments ends with code 2, what was wanted, and a hint.
    """

    def __init__(self, name: str, module: ModuleType) -> None:
        explanation = (module.__doc__ or "").rstrip()
        description, _, examples = explanation.rpartition("\n\n")
        self.examples = [line.strip() for line in examples.splitlines()]
        super().__init__(
            prog=f"assay {name}",
            description=description,
            epilog="\n  ".join(["examples:", *self.examples]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.summary = description.partition("\n")[0]
        self.run: Callable[[Values], Report | None] = module.run
        self._takes_prompt = any(argument.name == "prompt" for argument in module.ARGUMENTS)
        self._repeated = {argument.name for argument in module.ARGUMENTS if argument.repeated}
        for argument in module.ARGUMENTS:
            argument.declare(self)

    def read(self, arguments: Sequence[str]) -> Values:
        """The arguments' values. Raises SystemExit."""
        known = self._option_string_actions
        taking = {name for name, action in known.items() if action.nargs is None}
        options, words, before, given = list[str](), list[str](), "", set[str]()
        for at, word in enumerate(arguments):
            if word == "--":
                words += arguments[at + 1 :]
                break
            if word in ("-h", "--help"):
                # argparse would hide that it couldn't print.
                print(self.format_help(), end="")
                raise SystemExit(GOOD)
            self._refuse_unknown(word, before if before in taking else "")
            option, equals, value = word.partition("=")
            if option in known:
                if known[option].dest in given:
                    self.error(f"{option}: this is given already, and may be once")
                given |= {known[option].dest} if option not in self._repeated else set()
                options += [option, _MARK + value] if equals and option in taking else [word]
            elif before in taking:
                options.append(_MARK + word)
            else:
                words.append(word)
            before = word
        # Words together and first: argparse ends a row of them where an option stands.
        found, unknown = self.parse_known_args([_MARK + word for word in words] + options)
        if unknown:
            hint = "quote a prompt that has spaces" if self._takes_prompt else ""
            self.error(f"one argument too many: {unknown[0].removeprefix(_MARK)!r}", hint)
        return found

    def _refuse_unknown(self, word: str, before: str) -> None:
        """Raise SystemExit for what looks like an option and is none; the one `before` wants a value."""
        option = word.partition("=")[0]
        known = self._option_string_actions
        if option in known or option in ("", "-") or not option.startswith("-"):
            return
        if " " in option or _NUMBER.fullmatch(word):
            return
        if before:
            self.error(f"{before}: a value is missing", f"{before}={word} if that is the value")
        # Without dashes, which all have in common.
        close = near(option.strip("-"), [each[2:] for each in known if each[:2] == "--"], "; ", "--")
        dashed = f"-- goes before a prompt that begins with -: {self.prog} MODEL -- {word}"
        self.error(f"no such option: {option}{close}", dashed if self._takes_prompt and not close else "")

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

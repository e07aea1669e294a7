"""What a command is, and the parser of its arguments."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

GOOD, NO, USAGE = 0, 1, 2
"""Exit codes: done; the answer is "no" or a model is at fault; the command line or the request is."""


def near(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the names that are close to a word that is none of them, else nothing."""
    found = difflib.get_close_matches(word, list(known), n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(found)}?" if found else ""


class Parser(argparse.ArgumentParser):
    """Reads one command's arguments. What it doesn't know ends with code 2 and the nearest that it does."""

    def read(self, arguments: Sequence[str]) -> argparse.Namespace:
        """The arguments' values. Raises SystemExit."""
        found, unknown = self.parse_known_args(arguments)
        for word in unknown:
            option = word.partition("=")[0]
            if option.startswith("-"):
                self.error(f"no such option: {option}{near(option, self._option_string_actions)}")
        if unknown:
            self.error(f"one argument too many: {unknown[0]!r} (quote a prompt that has spaces)")
        return found

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}\n  hint   {self.prog} --help", file=sys.stderr)
        raise SystemExit(USAGE)


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

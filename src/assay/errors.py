"""Every exception that Assay raises.

    AssayError
    ├── ContractError        a graph, a node or an input breaks an operator's contract
    │   └── Violation        what is wrong with one node of a file's graph
    ├── FormatError          a file is damaged, hostile or of an unsupported kind
    ├── ModelNotFoundError   a model name or path that nothing answers to
    ├── RequestError         a request that can't be served as asked (out of range, a context too long)
    │   └── DeadlineExceeded   one that wasn't done in the time that it gave
    ├── HardwareFault        memory, a device or the way to one gave out
    │   └── StoreError         a journal's store can't be reached, or has no room
    ├── ProtocolError        processes of a service don't understand each other
    ├── SchedulingDeadlock   a cycle, or a wait that can't end
    ├── PrecisionOverflow    a value left its dtype's range
    └── KernelBuildError     a kernel didn't compile

An error has four parts: the place, what was wanted, what was found, and a hint that can be acted on. The
raiser knows what; each outer layer adds where (`at`).
"""

from __future__ import annotations

LONGEST = 2000
"""Characters of an error's longest line."""
TYPE_CHECKING = False  # typing's own takes longer to import than all that stands here
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Self


def shown(value: object) -> str:
    """What a caller gave as an error may show it: short, and whatever its own `repr` does."""
    try:
        text = repr(value)
    except Exception:  # integers of too many digits; objects of the caller's own
        text = f"{type(value).__name__} that can't be shown"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _plain(text: str) -> str:
    """One line as a terminal may show it, whatever names of a file are in it: cut, no control characters."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)


def near(word: str, known: Iterable[str], before: str = "", family: str = "") -> str:
    """`did you mean X or Y?`, after `before`, of names, of a family, that a word which is none of them
    begins in any case, or whose last part it is, else of those that it resembles; nothing where there are
    none.
    """
    names, low = list(known) if len(word) < LONGEST else [], word.lower()
    begun = (each for each in names if low and each.lower().startswith(low))
    found = [*begun, *(each for each in names if each.endswith(f".{word}"))][:3]
    if not found:
        import difflib

        found = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    return f"{before}did you mean {' or '.join(family + name for name in found)}?" if found else ""


class AssayError(Exception):
    """Base of all errors: `rule` says what broke, the other fields say where, and what to do."""

    def __init__(self, rule: str, *, place: str = "", want: str = "", got: str = "", hint: str = "") -> None:
        super().__init__(rule)
        self.rule = rule
        self.place = place
        self.want = want
        self.got = got
        self.hint = hint

    def at(self, place: str) -> Self:
        """The same error, with an outer place put before the one it has."""
        self.place = f"{place} › {self.place}" if self.place else place
        return self

    def __str__(self) -> str:
        lines = [f"{self.place}: {self.rule}" if self.place else self.rule]
        for label, text in (("wanted", self.want), ("got", self.got), ("hint", self.hint)):
            if text:
                lines.append(f"  {label:<6} {text}")
        return "\n".join(map(_plain, lines))


class within:
    """`with within(place):` an error of the body gets that outer place."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, AssayError):
            error.at(self._place)


class ContractError(AssayError):
    """A graph, a node or an input breaks an operator's contract. `violations`: all that was found at once."""

    _several: tuple[ContractError, ...] = ()

    @classmethod
    def together(cls, violations: list[ContractError]) -> ContractError:
        """One error for one violation or more: the only one itself, or an error that tells them all."""
        if len(violations) == 1:
            return violations[0]
        error = cls(f"{len(violations)} contracts are broken")
        error._several = tuple(violations)
        return error

    @property
    def violations(self) -> tuple[ContractError, ...]:
        """All that was found, in order; of an error that isn't several, itself."""
        return self._several or (self,)

    def at(self, place: str) -> Self:
        """The same error, with an outer place put before the one that it, or each of several, has."""
        for violation in self._several:
            violation.at(place)
        return self if self._several else super().at(place)

    def __str__(self) -> str:
        return "\n".join([super().__str__(), *map(str, self._several)])


class Violation(ContractError):
    """What is wrong with one node of a file's graph: its `line` in the listing, `node` and `operator`, the
    offending `input` of it by the operator's name and the `value` there, the `module` of the source that the
    file was exported from, and the `chain` of where the value is from, a line for each producer.

    `consequences` counts nodes further on that couldn't be checked because of it.
    """

    line = 0
    node = operator = input = value = module = ""
    chain: tuple[str, ...] = ()
    consequences = 0

    def __str__(self) -> str:
        lines = [super().__str__(), *[f"  module {self.module}"] * bool(self.module)]
        lines[1:] = map(_plain, [*lines[1:], *(f"  from   {step}" for step in self.chain)])
        if self.consequences:
            several = "s" * (self.consequences > 1)
            lines.append(f"  and    {self.consequences} node{several} behind it couldn't be checked")
        return "\n".join(lines)


class FormatError(AssayError):
    """A file is damaged, hostile or of an unsupported kind."""


class ModelNotFoundError(AssayError):
    """A model name or path that nothing answers to."""


class RequestError(AssayError):
    """A request that can't be served as asked; the place names the field."""


class DeadlineExceeded(RequestError):
    """A request wasn't done in the time that it gave."""


class HardwareFault(AssayError):
    """Memory, a device or the way to one gave out."""


class StoreError(HardwareFault):
    """A journal's store can't be reached, or has no room."""


class ProtocolError(AssayError):
    """Bytes that are no messages of ours: the connection that they came by is of no use any more."""


class SchedulingDeadlock(AssayError):
    """A cycle, or a wait that can't end."""


class PrecisionOverflow(AssayError):
    """A value left its dtype's range; the place names the first node where it happened.

    `row` is the first bad row of those that the node's threads divide; the symbol `rows` counts them.
    """

    rows = ""
    row = 0


class KernelBuildError(AssayError):
    """A kernel didn't compile; what the compiler says is told in its own lines."""

    def __str__(self) -> str:
        return super().__str__().replace("\\n", "\n")


def misnamed(what: str, wanted: Collection[str], given: Collection[object]) -> ContractError:
    """The error about a run whose sizes or inputs aren't those that a graph wants."""
    missing = [name for name in wanted if name not in given]
    unknown = [str(name) for name in given if name not in wanted]
    parts = [f"{word} {', '.join(names)}" for word, names in (("no", missing), ("unknown", unknown)) if names]
    rule, want, hint = f"{what} missing or unknown", ", ".join(wanted), near("".join(unknown[:1]), missing)
    return ContractError(rule, want=want or "none", got="; ".join(parts), hint=hint)

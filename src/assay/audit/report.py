"""What the check of a model's file finds: for people, for programs, and for tools that read SARIF."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from assay.errors import AssayError, ContractError, FormatError, Violation
from assay.hub.pull import resolve

if TYPE_CHECKING:
    from assay.graph.graph import Graph

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
FIELDS = "rule", "place", "want", "got", "hint"
PLACES = "line", "node", "operator", "input", "value", "module", "consequences"


@dataclass(frozen=True)
class Report:
    """A model's `file` held against the contracts of its operators: all that is wrong, in order. Of `nodes`
    count those of bodies and functions too.
    """

    file: str
    nodes: int
    violations: tuple[AssayError, ...]

    @property
    def ok(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        nodes, count = f"{self.nodes:,} node{'s' * (self.nodes != 1)}", len(self.violations)
        if self.ok:
            return f"{self.file}: {nodes}, every contract is kept"
        summary = f"{self.file}: {count} violation{'s' * (count > 1)} in {nodes}"
        return "\n\n".join([*map(str, self.violations), summary])

    def json(self) -> dict[str, object]:
        """The report as JSON has it: of each violation its fields, and its text for people."""
        found = [_fields(error) for error in self.violations]
        return {"file": self.file, "ok": self.ok, "nodes": self.nodes, "violations": found}

    def sarif(self) -> dict[str, object]:
        """The report as a log in SARIF 2.1.0; a line is one of `assay show FILE`."""
        rules = list(dict.fromkeys(map(_rule, self.violations)))
        driver = {"name": "assay", "rules": [_described(rule) for rule in rules]}
        results = [_result(error, self.file, rules) for error in self.violations]
        run = {"tool": {"driver": driver}, "results": results, "columnKind": "unicodeCodePoints"}
        return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def check(name: str | Path, progress: Callable[[int, int], None] | None = None) -> Report:
    """Hold a model's file, or the model of a catalogue name, against the contracts of its operators; nothing
    is run. What loading would refuse is in the report, and by the same code.

    Raises ModelNotFoundError where there is no such file, and what fetching a model raises.
    """
    path = resolve(name, progress)
    try:
        nodes, violations = _checked(path)
    except ContractError as error:
        nodes, violations = 0, list(error.at(str(path)).violations)
    except FormatError as error:
        return Report(str(path), 0, (error,))
    return Report(str(path), nodes, tuple(violations))


def _checked(path: Path) -> tuple[int, list[ContractError]]:
    """Nodes, and violations of contracts."""
    if path.suffix == ".onnx":
        from assay.formats.onnx_file import load_onnx
        from assay.runtime.model import analyse

        model = load_onnx(path)
        errors = analyse(model).errors
        return _count(model.graph), [error.at(str(path)) for error in errors]
    from assay.llm.loader import design
    from assay.llm.options import Options
    from assay.llm.source import open_source

    with open_source(path) as source:
        return _count(design(source, Options()).graph), []


def _count(graph: Graph) -> int:
    inner = (*graph.functions, *(body for node in graph.nodes for _, body in node.bodies))
    return len(graph.nodes) + sum(map(_count, inner))


def _fields(error: AssayError) -> dict[str, object]:
    found: dict[str, object] = {"kind": type(error).__name__}
    found |= {name: getattr(error, name) for name in FIELDS}
    if isinstance(error, Violation):
        found |= {name: getattr(error, name) for name in PLACES} | {"chain": list(error.chain)}
    return found | {"text": str(error)}


def _rule(error: AssayError) -> str:
    """The rule's name: the operator whose contract is broken, or what else is."""
    if not isinstance(error, Violation):
        return "format" if isinstance(error, FormatError) else "contract"
    return f"contract/{error.operator}"


def _described(rule: str) -> dict[str, object]:
    kind, _, operator = rule.partition("/")
    what = f"The contract of {operator}" if operator else f"The {kind} of the file"
    found: dict[str, object] = {"id": rule, "shortDescription": {"text": what}}
    return found | ({"help": {"text": f"assay contract {operator}"}} if operator else {})


def _result(error: AssayError, file: str, rules: list[str]) -> dict[str, object]:
    path, rule = Path(file), _rule(error)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    place: dict[str, object] = {"physicalLocation": {"artifactLocation": {"uri": uri}}}
    if isinstance(error, Violation):
        if error.line:
            place["physicalLocation"] = {
                "artifactLocation": {"uri": uri},
                "region": {"startLine": error.line},
            }
        name = error.node or error.value
        if name:
            place["logicalLocations"] = [{"name": name, "fullyQualifiedName": name, "kind": "member"}]
    return {
        "ruleId": rule, "ruleIndex": rules.index(rule), "level": "error", "message": {"text": str(error)},
        "locations": [place],
    }  # fmt: skip

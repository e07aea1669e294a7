"""All ONNX operators by name: the standard's, and users' own (entry points `assay.operators`)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from assay.errors import ContractError, within
from assay.ops.standard.definition import Definition
from assay.ops.standard.record import gaps, strangers

FAMILIES = (
    "pointwise", "shape", "control", "linear", "conv", "reduce", "norm", "resize", "pool", "recurrent",
    "move", "pad", "fold", "cast", "fill", "index", "sequence", "text", "learned",
    "training",
    "quantized", "einsum", "sampled", "regions", "random", "running", "signal", "attention",
)  # fmt: skip
"""Modules of assay.ops.standard that define operators when they are imported."""
GROUP = "assay.operators"
"""The entry points' group; each names a module that calls `define`."""

_definitions: dict[str, Definition] = {}


def define(name: str, rule: object, **fields: object) -> Definition:
    """Register an operator: a name such as `Softmax` or `com.example.Scale`, and the fields of a Definition.

    Raises ContractError when the name is taken, or with all that its record lacks.
    """
    definition = Definition(name, rule, **fields)  # type: ignore[arg-type]
    if problems := [*gaps(definition), *(strangers(definition) if definition.given else ())]:
        want = "a record that is complete and agrees with its schema"
        raise ContractError("operator refused", place=name, want=want, got="; ".join(problems))
    if name in _definitions:
        got = f"defined already, by {_definitions[name].rule.__module__}"
        raise ContractError("operator name taken", place=name, want="a name of its own", got=got)
    _definitions[name] = definition
    return definition


def find(name: str) -> Definition | None:
    """The operator of that name, or None."""
    _load()
    return _definitions.get(name)


def all_definitions() -> tuple[Definition, ...]:
    """Every operator, by name."""
    _load()
    return tuple(_definitions[name] for name in sorted(_definitions))


@cache
def _load() -> None:
    for family in FAMILIES:
        import_module(f"assay.ops.standard.{family}")
    for entry in entry_points(group=GROUP):
        before = dict(_definitions)
        try:
            with within(f"package {entry.dist.name if entry.dist else entry.module} › {entry.value}"):
                _import(entry)
        except ContractError:
            _definitions.clear()
            _definitions.update(before)
            raise


def _import(entry: EntryPoint) -> None:
    try:
        entry.load()
    except ContractError:
        raise
    except Exception as error:  # whatever a user's module raises
        rule, want = "the package's operators can't be loaded", "a module that can be imported"
        hint = "mend the package, or uninstall it"
        raise ContractError(rule, want=want, got=f"{type(error).__name__}: {error}", hint=hint) from error

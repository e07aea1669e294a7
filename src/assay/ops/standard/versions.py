"""Every older version of the standard's operators, rewritten into the newest one's meaning.

A step leads from the last version of one meaning to the next meaning, so that several may follow each other.
What only admits more types, adds an attribute whose default is the old meaning or says the same in other
words has no step.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from assay.errors import ContractError, near
from assay.graph.graph import Graph, Literal, Node
from assay.ops.standard.older import REWRITES, Context, Draft

if TYPE_CHECKING:
    from onnx.defs import OpSchema


def upgrade(node: Node, version: int, context: Context) -> list[Node]:
    """What a node that was written for a version of its operator is in the newest one's meaning.

    Raises ContractError for a node that its own version doesn't admit and for one that can't be rewritten.
    """
    form = _form(node.op, version)
    if form.newest and _next(node.op, version) is None:
        return [node]
    form.check(node)
    return list(_upgraded(node, version, context))


def _upgraded(node: Node, version: int, context: Context) -> Iterator[Node]:
    last = _next(node.op, version)
    if last is None:
        yield node
        return
    for new in REWRITES[node.op][last].step(node, Draft(node, context)):
        yield from _upgraded(new, last + 1, context) if new.op == node.op else [new]


def _next(op: str, version: int) -> int | None:
    """The last version with the meaning of this one, where another meaning follows."""
    return min((last for last in REWRITES.get(op, ()) if version <= last), default=None)


class _Form(NamedTuple):
    """What one version admits: kinds of attributes, which must be there, and numbers of arguments."""

    newest: bool
    kinds: dict[str, str]
    required: tuple[str, ...]
    single: dict[int, str]
    inputs: range
    outputs: range

    def check(self, node: Node) -> None:
        """Raises ContractError unless a node has attributes and arguments as its version has them."""
        errors = []
        for name, value in node.attributes.items():
            kind = self.kinds.get(name)
            if kind is None:
                want, hint = ", ".join(self.kinds) or "no attributes", near(name, self.kinds)
                errors.append(
                    ContractError(f"unknown attribute {name}", want=want, got=repr(value), hint=hint)
                )
            elif not _is(value, kind):
                rule = f"attribute {name}: wrong kind of value"
                errors.append(ContractError(rule, want=kind.lower(), got=repr(value)))
        for name in self.required:
            if name not in node.attributes:
                want = self.kinds[name].lower()
                errors.append(ContractError(f"attribute {name} missing", want=want, got="nothing"))
        for what, names, admitted in (
            ("inputs", node.inputs, self.inputs),
            ("outputs", node.outputs, self.outputs),
        ):
            if len(names) not in admitted:
                least, most = admitted[0], admitted[-1]
                want = f"at least {least}" if most > 1 << 30 else " to ".join(map(str, sorted({least, most})))
                errors.append(ContractError(f"number of {what}", want=want, got=str(len(names))))
        for number, name in self.single.items():
            if number < len(node.inputs) and not node.inputs[number]:
                errors.append(ContractError(f"input {name} missing", want="a value", got="nothing"))
        if errors:
            raise ContractError.together(errors)


_KINDS: dict[str, type] = {"INT": int, "FLOAT": float, "STRING": str, "TENSOR": Literal, "GRAPH": Graph}


def _is(value: object, kind: str) -> bool:
    if kind in ("INTS", "FLOATS", "STRINGS"):
        return isinstance(value, tuple) and {_KINDS[kind[:-1]]}.issuperset(map(type, value))
    return kind not in _KINDS or type(value) is _KINDS[kind]


@lru_cache(maxsize=1024)
def _form(op: str, version: int) -> _Form:
    from onnx import defs

    domain, _, name = op.rpartition(".")
    schema = defs.get_schema(name, version, domain)
    attributes = schema.attributes
    single = (port.option == defs.OpSchema.FormalParameterOption.Single for port in schema.inputs)
    return _Form(
        schema.since_version == defs.get_schema(name, domain=domain).since_version,
        {key: str(attribute.type).rpartition(".")[2] for key, attribute in sorted(attributes.items())},
        tuple(key for key, attribute in attributes.items() if attribute.required),
        {number: schema.inputs[number].name for number, needed in enumerate(single) if needed},
        range(schema.min_input, schema.max_input + 1),
        range(schema.min_output, schema.max_output + 1),
    )


def changes(op: str) -> list[tuple[int, str]]:
    """An operator's older versions, and how each becomes the next one."""
    found, schemas = [], _histories()[op]
    for schema, later in zip(schemas, (*schemas[1:], None), strict=True):
        version, end = schema.since_version, later.since_version if later else 1 << 30
        steps = REWRITES.get(op, {})
        texts = [steps[last].text for last in sorted(steps) if version <= last < end]
        if later and not texts:
            texts = [_same(schema, later)]
        if texts:
            found.append((version, " ".join(texts)))
    return found


def _same(schema: OpSchema, later: OpSchema) -> str:
    """In what a later version with the same meaning differs."""
    version = later.since_version
    more = sorted(set(later.attributes) - set(schema.attributes))
    more += [
        each.name for each in (*later.inputs[len(schema.inputs) :], *later.outputs[len(schema.outputs) :])
    ]
    if more:
        return (
            f"Version {version} adds {', '.join(f'`{name}`' for name in more)}; without, it means the same."
        )
    if later.deprecated:
        return f"Version {version} advises against it; it means the same."
    if any(a.types != b.types for a, b in zip(schema.inputs, later.inputs, strict=True)):
        return f"Version {version} admits more types."
    return f"Version {version} says the same in other words."


@lru_cache
def _histories() -> dict[str, list[OpSchema]]:
    """All versions of each operator, oldest first."""
    from onnx import defs

    found: dict[str, list[OpSchema]] = {}
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda schema: schema.since_version):
        found.setdefault(f"{schema.domain}.{schema.name}".lstrip("."), []).append(schema)
    return found

"""Every older version of the standard's operators, rewritten into the newest one's meaning.

A step leads from the last version of one meaning to the next meaning, so that several may follow each other.
What only admits more, adds an attribute whose default is the old meaning or is said in other words has no
step.
"""

from __future__ import annotations

from assay.graph.graph import Node
from assay.ops.standard.older import REWRITES, Draft
from assay.ops.standard.rewriting import Rewriting
from assay.ops.standard.schema import Schema, newest, schema, split_name


def upgrade(node: Node, version: int, context: Rewriting) -> list[Node]:
    """What a node that was written for a version of its operator, and is as that says, is in the newest one's
    meaning. Raises ContractError for one that can't be rewritten.
    """
    last = min((last for last in REWRITES.get(node.op, ()) if version <= last), default=None)
    if last is None:
        return [node]
    found = []
    for new in REWRITES[node.op][last].step(node, Draft(node, context)):
        found += upgrade(new, last + 1, context) if new.op == node.op else [new]
    return found


def changes(op: str) -> list[tuple[int, str]]:
    """An operator's older versions, and how each becomes the next one."""
    found, versions, steps = [], _history(op), REWRITES.get(op, {})
    for each, later in zip(versions, (*versions[1:], None), strict=True):
        end = later.version if later else 1 << 30
        texts = [steps[last].text for last in sorted(steps) if each.version <= last < end]
        if later and not texts:
            texts = [_same(each, later)]
        if texts:
            found.append((each.version, " ".join(texts)))
    return found


def _same(older: Schema, later: Schema) -> str:
    """In what a later version with the same meaning differs."""
    more = sorted(set(later.attributes) - set(older.attributes))
    ports = (*later.inputs[len(older.inputs) :], *later.outputs[len(older.outputs) :])
    if more := [*more, *(port.name for port in ports)]:
        names = ", ".join(f"`{name}`" for name in more)
        return f"Version {later.version} adds {names}; without, it means the same."
    if later.deprecated:
        return f"Version {later.version} advises against it; it means the same."
    if any(a.types != b.types for a, b in zip(older.inputs, later.inputs, strict=True)):
        return f"Version {later.version} keeps the meaning and admits more types."
    return f"Version {later.version} keeps the meaning."


def _history(op: str) -> list[Schema]:
    """All versions of an operator, oldest first."""
    found: list[Schema] = []
    each = schema(op, newest(split_name(op)[0]))
    while each:
        found.insert(0, each)
        each = schema(op, each.version - 1)
    return found

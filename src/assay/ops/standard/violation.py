"""What is wrong with one node of a file's graph."""

from __future__ import annotations

from assay.errors import ContractError
from assay.graph.graph import Node
from assay.graph.text import quote


class Violation(ContractError):
    """A breach of a contract: `node` as written, the offending `value`, the `chain` of where that is from.

    `consequences` counts nodes further on that couldn't be checked because of it.
    """

    def __init__(
        self, rule: str, node: Node, want: str, got: str, hint: str, value: str, chain: tuple[str, ...]
    ) -> None:
        from assay.ops.standard.infer import place_of

        line = f"line {node.line} › " if node.line else ""
        named = quote(next(iter((*node.inputs, *node.outputs)), ""))
        where = f"{node.op} {named}" if node.op in ("input", "weight", "output") else place_of(node)
        super().__init__(rule, place=line + where, want=want, got=got, hint=hint)
        self.node = node
        self.value = value
        self.chain = chain
        self.consequences = 0

    def __str__(self) -> str:
        lines = [super().__str__(), *(f"  from   {step}" for step in self.chain)]
        if self.consequences:
            lines.append(f"  and    {self.consequences} nodes behind it couldn't be checked")
        return "\n".join(lines)

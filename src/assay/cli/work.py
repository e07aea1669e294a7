"""What a launch has to do, and the least time that the machine needs for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from assay.cli.machine import Limits
from assay.compiler.plan import Launch, Plan
from assay.kernels.sizes import PAGE

PRODUCTS = ("linear", "linear_quantized")


@dataclass(frozen=True)
class Work:
    """Operations, bytes that come from memory, and bytes of all else that is read or written."""

    shape: str
    integer: bool
    operations: int
    weights: int
    values: int

    def least_seconds(self, limits: Limits) -> tuple[float, str]:
        """What the machine needs at least, and for what."""
        peak, kind = (limits.int8, "int8") if self.integer else (limits.float32, "float32")
        return max(
            (self.operations / peak, kind),
            (self.weights / limits.memory, "memory"),
            (self.values / limits.cache, "cache"),
        )


def work_of(plan: Plan, launch: Launch, binding: Mapping[str, int], keys: int) -> Work:
    """The work of a launch in a step of one sequence, which then has `keys` tokens in the cache."""
    graph = plan.graph
    nodes = [graph.nodes[index] for index in launch.nodes]
    first, tokens = nodes[0], binding["T"]
    # Values between the nodes of a chain stay in registers.
    inner = {name for node in nodes[:-1] for name in node.outputs}
    names = dict.fromkeys(
        name for node in nodes for name in (*node.inputs, *node.outputs) if name not in inner
    )
    weights = values = 0
    for name in names:
        size = graph.types[name].nbytes(binding)
        if name in graph.weights and first.op == "embedding":
            continue  # It reads a row for each token: less than it writes.
        if name in graph.weights and first.op in PRODUCTS:
            weights += size
        elif name in graph.states or (name in plan.aliases and name in first.inputs):
            pages = graph.types[name].shape[0].at(binding)
            values += size // (pages * PAGE) * (keys if first.op == "attention" else tokens)
        elif name not in plan.aliases:
            values += size
    shape = tuple(dim.at(binding) for dim in graph.types[first.inputs[0]].shape)
    operations = 0
    text = "×".join(map(str, shape))
    if first.op in PRODUCTS:
        n, k = (dim.at(binding) for dim in graph.types[first.inputs[-1]].shape)
        operations, text = 2 * shape[0] * k * n, f"{shape[0]}×{k}→{n}"
    elif first.op == "attention":
        seen = sum(range(keys - tokens + 1, keys + 1))
        operations, text = 4 * shape[1] * seen, f"{text}, {keys} keys"
    return Work(text, first.op == "linear_quantized", operations, weights, values)

"""What the machine can do at most, measured in the same run, and the least time that a work takes then."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from assay.cli import machine
from assay.formats.gguf import open_gguf
from assay.models.gguf_decoder import from_gguf
from assay.runtime.cpu import Cpu
from benchmarks import models


@dataclass(frozen=True)
class Limits:
    """Bytes per second read from memory by one thread and by the team; the team's operations per second."""

    read_one: float
    read: float
    int8: float
    float32: float

    def best(self, other: Limits) -> Limits:
        """The better of two measurements, one by one."""
        return Limits(*map(max, asdict(self).values(), asdict(other).values()))

    def figures(self) -> dict[str, float]:
        """Rounded, in units of 10⁹."""
        return {name: round(value / 1e9, 1) for name, value in asdict(self).items()}


def measure(threads: int) -> Limits:
    """Measured now, by kernels that do nothing else (kernels/probe.py). A multiply-add is two operations."""
    alone, device = Cpu(1), Cpu(threads)
    one, team = machine.limits(alone), machine.limits(device)
    alone.close()
    device.close()
    return Limits(one.memory, team.memory, team.int8, team.float32)


@dataclass(frozen=True)
class Cost:
    """What the model in a file takes: bytes of tensors, elements of matrices, work of attention."""

    tensor_bytes: int
    elements: int
    output_elements: int
    attention: int
    """Float operations of one token's queries against one key, scores and values together, all layers."""
    quantised: bool
    """Whether matrices are multiplied in 8 bits, else in float32."""

    def decode(self, limits: Limits) -> float:
        """Seconds of one token: every tensor is read once."""
        return self.tensor_bytes / limits.read

    def prefill(self, limits: Limits, tokens: int, logits: int = 1) -> float:
        """Seconds of a prompt, attention in float32, with `logits` positions' logits."""
        products = 2 * (tokens * (self.elements - self.output_elements) + logits * self.output_elements)
        pairs = tokens * (tokens + 1) / 2
        return products / self._rate(limits) + self.attention * pairs / limits.float32

    def batch(self, limits: Limits, sequences: int, prompt: int, new: int) -> float:
        """Seconds of all prompts and of all steps, each of which reads the tensors or does the arithmetic."""
        arithmetic = (
            2 * sequences * self.elements / self._rate(limits)
            + self.attention * sequences * (prompt + new / 2) / limits.float32
        )
        steps = (new - 1) * max(self.decode(limits), arithmetic)
        return sequences * self.prefill(limits, prompt) + steps

    def _rate(self, limits: Limits) -> float:
        return limits.int8 if self.quantised else limits.float32


def cost(path: Path) -> Cost:
    """Of the model in this file."""
    with open_gguf(path) as file:
        model, _, _ = from_gguf(file)
        embedding = file.tensors[models.EMBEDDING]
    attention = 4 * model.layers * model.heads * model.head_dim
    elements = models.matrix_elements(path)
    output = embedding.shape[0] * embedding.shape[1]
    return Cost(models.tensor_bytes(path), elements, output, attention, embedding.dtype.quantised)

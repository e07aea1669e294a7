"""The catalogue's graphs give ONNX Runtime's numbers, by kernels alone, and the same bits in every way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from assay import hub
from assay.formats.onnx_file import load_onnx
from assay.runtime.cpu import Cpu
from assay.runtime.model import analyse, running
from assay.runtime.program import Program, Store
from models_onnx.engines import onnx_runtime
from models_onnx.examples import NAMES, Example, examples

RELATIVE = 1e-4
"""Of an output's largest element: hundreds of layers of float32, whose sums have another order."""
VARIANTS = ((2, ("fold", "share")), (3, ("fuse", "dead")))
"""Threads, and the passes that are switched off."""
BATCH_AXIS = {"state": 1, "stateN": 1}
TIMES = ("silero-vad-sequence",)
"""Graphs whose axis 0 is time: a moment depends on those before it."""

every_graph = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def devices() -> Iterator[dict[int, Cpu]]:
    made = {threads: Cpu(threads) for threads in (1, 2, 3)}
    yield made
    for device in made.values():
        device.close()


class Graphs:
    """Programs of one file's graph."""

    def __init__(self, name: str) -> None:
        model = load_onnx(hub.pull(name))
        self.graph, self.weights = running(model, analyse(model))
        self.names = model.graph.outputs

    def program(self, device: Cpu, *off: str) -> Program:
        return Program(self.graph, Store(device), self.weights, trusted=True, off=set(off))

    def run(self, program: Program, inputs: Example) -> dict[str, NDArray[np.generic]]:
        return dict(zip(self.names, program.run(inputs).values(), strict=True))  # type: ignore[arg-type]


@every_graph
def test_numbers_are_those_of_onnx_runtime_without_a_host_step(name: str, devices: dict[int, Cpu]) -> None:
    graphs, peer = Graphs(name), onnx_runtime(hub.pull(name))
    program = graphs.program(devices[2])
    for example in examples(name):
        found = graphs.run(program, example)
        (stage,) = program.stages()
        assert stage.stage.calls and not stage.hosts
        for key, want in peer(example).items():
            assert found[key].dtype == want.dtype
            bound = RELATIVE * float(np.abs(want).max())
            np.testing.assert_allclose(found[key], want, 0, bound, err_msg=key)


@every_graph
def test_nothing_changes_a_bit(name: str, devices: dict[int, Cpu], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the number of threads, nor any pass, nor which sizes came before."""
    monkeypatch.setattr("assay.runtime.program.LITTLE", 0)  # little work is shared too
    graphs = Graphs(name)
    given = examples(name)
    given = [given[0], given[-1]]
    program = graphs.program(devices[1])
    wanted = [graphs.run(program, example) for example in given]
    for threads, off in VARIANTS:
        program = graphs.program(devices[threads], *off)
        for example, want in zip(given[::-1], wanted[::-1], strict=True):
            for key, found in graphs.run(program, example).items():
                assert found.tobytes() == want[key].tobytes(), f"{key}: {threads} threads, without {off}"


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TIMES])
def test_a_row_alone_is_the_row_in_a_batch(name: str, devices: dict[int, Cpu]) -> None:
    graphs = Graphs(name)
    program = graphs.program(devices[2])
    whole = examples(name)[-1]
    wanted = graphs.run(program, whole)
    last = len(whole[graphs.graph.inputs[0]]) - 1
    for row in {0, last}:
        found = graphs.run(program, {key: _row(key, each, row) for key, each in whole.items()})
        for key, each in found.items():
            assert each.tobytes() == _row(key, wanted[key], row).tobytes(), f"{key}, row {row}"


def _row(key: str, array: NDArray[np.generic], row: int) -> NDArray[np.generic]:
    """One row of the batch; what has none is for all."""
    return np.take(array, [row], BATCH_AXIS.get(key, 0)) if array.ndim else array

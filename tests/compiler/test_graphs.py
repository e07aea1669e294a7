"""Random graphs end to end: what a plan computes is what its nodes compute one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import load
from compiler.graphs import Sample, node_by_node, samples
from every_op.compare import bits_differ
from every_op.harness import POISON, Raw


@pytest.fixture(scope="module")
def device() -> Iterator[Cpu]:
    made = Cpu(3, capacity=1 << 28, guard=True)
    yield made
    made.close()


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(sample=samples(), bucket=st.sampled_from((20, 33)))
def test_plans_change_no_bit(device: Cpu, sample: Sample, bucket: int) -> None:
    """Fused, placed, on three threads, in memory full of NaNs: outputs and states as from each node alone."""
    graph = sample.graph
    expected = node_by_node(sample, device)
    weights = load(graph, Raw(sample.weights), device)
    states = {}
    for name, array in sample.states.items():
        states[name] = device.allocate(array.nbytes, owner=name)
        device.copy_in(states[name], array)
    buckets = dict.fromkeys(graph.symbols, (bucket,))
    executor = Executor(graph, device, weights, states, buckets, gap=64)
    inputs = {name: sample.inputs[name] for name in graph.inputs}
    executor.run(sample.binding, inputs)
    arena = executor._arena
    assert arena is not None
    arena.array(np.uint8, (arena.nbytes,))[:] = POISON
    outputs = executor.run(sample.binding, inputs)
    for name in graph.outputs:
        assert not (problem := bits_differ(outputs[name], expected[name])), f"{name}: {problem}"
    latest = executor.plan(sample.binding).aliases
    for name, state in latest.items():
        array = states[state].array(np.float16, sample.states[state].shape)
        assert not bits_differ(array.copy(), expected[name]), name
    device.pool.verify_guards()

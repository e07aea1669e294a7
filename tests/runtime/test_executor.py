"""The executor: sizes and inputs that don't fit, faults by node, one arena, memory that runs out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from assay.errors import ContractError, HardwareFault, PrecisionOverflow
from assay.graph.graph import Graph
from assay.ops.builder import Builder
from assay.ops.operator import Array
from assay.runtime.cpu import Cpu
from assay.runtime.executor import Executor
from assay.runtime.weights import load, panels
from assay.tensor.dtype import F32
from every_op.harness import Raw

BUCKETS = {"T": (1, 8, 64)}


@pytest.fixture(scope="module")
def device() -> Iterator[Cpu]:
    made = Cpu(2, capacity=1 << 26)
    yield made
    made.close()


def two_maps() -> tuple[Graph, dict[str, Array]]:
    """silu(norm(x) · wᵀ) twice over; what is normed is quantised as well, so that faults are noticed."""
    b = Builder("maps")
    rng = np.random.default_rng(0)
    x = b.input("x", F32, "T", 64)
    weights = {}
    for layer in range(2):
        gain, w = f"gain{layer}", f"w{layer}"
        weights[gain] = rng.normal(1, 0.1, 64).astype(np.float32)
        weights[w] = rng.normal(0, 0.1, (64, 64)).astype(np.float32)
        x = b.op("rms_norm", x, b.weight(gain, F32, 64), name=f"norm{layer}", epsilon=1e-5)
        b.output(b.ops("quantize", x, name=f"quantize{layer}", output=f"q{layer}")[1])
        x = b.op("silu", b.op("linear", x, b.weight(w, F32, 64, 64), name=f"map{layer}"), name=f"act{layer}")
    b.output(x)
    return b.graph(), weights


def executor_of(device: Cpu) -> Executor:
    graph, weights = two_maps()
    return Executor(graph, device, load(graph, Raw(weights), device), {}, BUCKETS)


def rows(count: int) -> Array:
    return np.random.default_rng(count).normal(0, 1, (count, 64)).astype(np.float32)


def result(executor: Executor, x: Array) -> Array:
    outputs = executor.run({"T": len(x)}, {"x": x})
    return outputs[executor.graph.outputs[-1]].copy()


def test_a_size_above_every_bucket_is_refused_with_the_limit(device: Cpu) -> None:
    executor = executor_of(device)
    with pytest.raises(ContractError) as refused:
        executor.run({"T": 65}, {"x": rows(65)})
    assert (refused.value.place, refused.value.want, refused.value.got) == ("maps › T", "at most 64", "65")
    assert executor.runs == 0
    result(executor, rows(64))


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((3, 64), np.float64),
        np.zeros((3, 64), np.int32),
        np.zeros((2, 64), np.float32),
        np.zeros((4, 64), np.float32),
        np.zeros((3, 32), np.float32),
        np.zeros((64, 3), np.float32),
        np.zeros(192, np.float32),
    ],
    ids=lambda array: f"{array.dtype}{list(array.shape)}",
)
def test_inputs_that_dont_fit_are_refused_by_name(device: Cpu, wrong: Array) -> None:
    with pytest.raises(ContractError) as refused:
        executor_of(device).run({"T": 3}, {"x": wrong})
    assert refused.value.place == "maps › x"
    assert str(wrong.dtype) in refused.value.got and str(list(wrong.shape)) in refused.value.got


@pytest.mark.parametrize(
    ("inputs", "got", "hint"),
    [
        ({}, "no x", ""),
        ({"x": rows(3), "y": rows(3)}, "unknown y", ""),
        ({"xs": rows(3)}, "no x; unknown xs", "did you mean x?"),
        ({"y": rows(3), "zebra": rows(3)}, "no x; unknown y, zebra", ""),
    ],
)
def test_missing_and_unknown_inputs_are_refused_by_name(
    device: Cpu, inputs: dict[str, Array], got: str, hint: str
) -> None:
    executor = executor_of(device)
    for _ in range(2):
        with pytest.raises(ContractError) as refused:
            executor.run({"T": 3}, inputs)
        error = refused.value
        assert (error.rule, error.place, error.want) == ("inputs missing or unknown", "maps", "x")
        assert (error.got, error.hint) == (got, hint)
        assert executor.runs == 0


@pytest.mark.parametrize(
    ("binding", "place", "got"),
    [({}, "maps", "no T"), ({"T": 3, "S": 1}, "maps", "unknown S"), ({"T": -1}, "maps › T", "-1")],
)
def test_sizes_are_those_of_the_graphs_symbols(
    device: Cpu, binding: dict[str, int], place: str, got: str
) -> None:
    with pytest.raises(ContractError) as refused:
        executor_of(device).run(binding, {"x": rows(3)})
    assert (refused.value.place, refused.value.got) == (place, got)


def test_a_symbol_without_buckets_is_refused(device: Cpu) -> None:
    graph, weights = two_maps()
    for buckets in ({}, {"T": ()}, {"S": (1,)}):
        with pytest.raises(ContractError) as refused:
            Executor(graph, device, load(graph, Raw(weights), device), {}, buckets)
        assert (refused.value.place, refused.value.rule) == ("maps › T", "a symbol without buckets")


def test_plans_are_as_many_as_buckets_whatever_the_sizes(device: Cpu) -> None:
    executor = executor_of(device)
    for count in (*range(1, 65), *range(64, 0, -1)):
        result(executor, rows(count))
    assert len(executor._plans) == len(executor._ready) == len(BUCKETS["T"])


def test_strided_inputs_are_the_numbers_that_they_show(device: Cpu) -> None:
    executor = executor_of(device)
    x = rows(5)
    assert np.array_equal(result(executor, np.asfortranarray(x)), result(executor, x))


def test_buckets_share_an_arena_and_change_no_bit(device: Cpu) -> None:
    """A row's result is that of the row alone, in plans of any size, before and after the arena grew."""
    executor = executor_of(device)
    x = rows(64)
    alone = [result(executor, x[row : row + 1]) for row in range(3)]
    small = result(executor, x[:3])
    large = result(executor, x)
    assert np.array_equal(np.concatenate(alone), small) and np.array_equal(small, large[:3])
    arena = executor._arena
    for count in (2, 1, 64, 7, 3):
        assert np.array_equal(result(executor, x[:count]), large[:count])
    assert executor._arena is arena and executor.runs == 10


def test_the_arena_holds_every_plan_and_the_scratch_of_each_thread(device: Cpu) -> None:
    """With plans so near to each other in size that one's scratch is more than the next one's growth."""
    graph, weights = two_maps()
    sizes = range(1, 65)
    executor = Executor(graph, device, load(graph, Raw(weights), device), {}, {"T": sizes})
    for count in sizes:
        result(executor, rows(count))
        plan = executor.plan({"T": count})
        assert executor._arena is not None and plan.scratch > 0
        assert executor._arena.nbytes >= plan.arena + plan.scratch * device.team.nthreads


def test_outputs_are_views_that_the_next_run_overwrites(device: Cpu) -> None:
    executor = executor_of(device)
    name = executor.graph.outputs[-1]
    first = executor.run({"T": 2}, {"x": rows(2)})[name]
    before = first.copy()
    executor.run({"T": 2}, {"x": rows(2) * 3 + 1})
    assert not np.array_equal(first, before)


@pytest.mark.parametrize(("planted", "node"), [("gain0", "quantize0"), ("gain1", "quantize1")])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_outside_its_range_is_reported_at_the_first_node(
    device: Cpu, planted: str, node: str, value: float
) -> None:
    """Memory that was damaged after loading: a file with such a number is refused."""
    graph, weights = two_maps()
    loaded = load(graph, Raw(weights), device)
    loaded[planted].array(np.float32, (64,))[7] = value
    executor = Executor(graph, device, loaded, {}, BUCKETS)
    for _ in range(2):
        with pytest.raises(PrecisionOverflow) as found:
            result(executor, rows(5))
        assert found.value.place == f'maps › node "{node}" (quantize)'


def test_a_fault_is_forgotten_by_the_next_run(device: Cpu) -> None:
    executor = executor_of(device)
    expected = result(executor, rows(5))
    bad = rows(5)
    bad[3, 3] = np.inf
    with pytest.raises(PrecisionOverflow) as found:
        result(executor, bad)
    assert (found.value.rows, found.value.row) == ("T", 3)
    assert np.array_equal(result(executor, rows(5)), expected)


def test_memory_that_runs_out_is_a_fault_and_smaller_runs_go_on() -> None:
    device = Cpu(1, capacity=1 << 18)
    graph, weights = two_maps()
    executor = Executor(graph, device, load(graph, Raw(weights), device), {}, {"T": (8, 512)})
    small = result(executor, rows(8))
    with pytest.raises(HardwareFault) as refused:
        result(executor, rows(512))
    assert refused.value.place == "maps arena" and "largest free block" in refused.value.got
    assert np.array_equal(result(executor, rows(8)), small)
    device.close()


def test_a_weight_wanted_in_two_layouts_is_refused() -> None:
    b = Builder("g")
    x, w = b.input("x", F32, 8, 32), b.weight("w", F32, 8, 32)
    b.output(b.op("linear", x, w, name="map"))
    b.output(b.op("add", x, w, name="sum"))
    with pytest.raises(ContractError) as refused:
        panels(b.graph())
    assert refused.value.rule == "one weight, two layouts" and refused.value.got == "w"
    assert refused.value.place == 'node "sum" (add)'

"""Plans: memory that nobody uses twice at once, chains, which launches divide which rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.compiler import chain
from assay.compiler.plan import Compiler, Launch, Plan, choose
from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import Node, ValueType
from assay.kernels.sizes import REGISTERS
from assay.ops import registry
from assay.ops.builder import Builder
from assay.ops.operator import Kernel, Site
from assay.ops.resolution import resolve
from assay.tensor.dtype import F32, I32
from compiler.graphs import Sample, samples


def ranges(plan: Plan, launch: Launch) -> tuple[set[tuple[int, int, str]], set[tuple[int, int, str]]]:
    """The places (begin, end, value) in the arena that a launch reads and writes."""
    graph = plan.graph
    nodes = [graph.nodes[index] for index in launch.nodes]
    inner = {name for node in nodes[:-1] for name in node.outputs}
    reads = {name for node in nodes for name in node.inputs} - inner
    writes = {name for node in nodes for name in node.outputs} - inner

    def places(names: set[str]) -> set[tuple[int, int, str]]:
        return {
            (plan.offsets[name], plan.offsets[name] + graph.types[name].nbytes(plan.bound), name)
            for name in names
            if name in plan.offsets
        }

    return places(reads), places(writes)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(samples(), st.sampled_from((0, 64)))
def test_no_value_is_overwritten_while_it_is_needed(sample: Sample, gap: int) -> None:
    """Launches between two barriers may run at once: what one writes, another touches as that value alone."""
    compiler = Compiler(sample.graph)
    plan = compiler.plan(dict.fromkeys(sample.graph.symbols, 64), gap=gap)
    owner: dict[int, str] = {}
    phases: list[list[Launch]] = [[]]
    for launch in plan.launches:
        if launch.barrier:
            phases.append([])
        phases[-1].append(launch)
    for phase in phases:
        touched = [ranges(plan, launch) for launch in phase]
        for number, (_, writes) in enumerate(touched):
            for other, (reads, also) in enumerate(touched):
                for begin, end, name in writes:
                    for left, right, value in reads | also:
                        if other != number and begin < right and left < end:
                            assert name == value
    # In order: nobody reads a place after another value was put there.
    for launch in plan.launches:
        reads, writes = ranges(plan, launch)
        for begin, _, name in reads:
            assert owner.get(begin, name) == name
        for begin, end, name in writes:
            for place in [place for place in owner if begin <= place < end]:
                del owner[place]
            owner[begin] = name
    for name in sample.graph.outputs:
        assert owner.get(plan.offsets.get(name, -1), name) == name


def test_symbols_stay_words_that_each_run_fills() -> None:
    b = Builder("g")
    x = b.input("x", F32, "T", 64)
    b.output(b.op("rms_norm", x, b.weight("w", F32, 64), epsilon=1e-5))
    plan = Compiler(b.graph()).plan({"T": 8})
    (launch,) = plan.launches
    assert Dim.of("T") in launch.arguments and 64 in launch.arguments and 8 not in launch.arguments
    assert plan.arena >= 2 * 8 * 64 * 4


def barriers_of(builder: Builder) -> list[bool]:
    return [launch.barrier for launch in Compiler(builder.graph()).plan({"T": 8}).launches]


def test_threads_keep_to_rows_that_both_launches_divide() -> None:
    b = Builder("g")
    x = b.op("rms_norm", b.input("x", F32, "T", 8), b.weight("w", F32, 8), epsilon=1e-5)
    b.output(b.op("rms_norm", x, b.weight("v", F32, 8), epsilon=1e-5))
    assert barriers_of(b) == [False, False]


def test_what_is_read_whole_is_waited_for_even_if_it_has_as_many_rows() -> None:
    """The gain is divided by its 8 elements, the norm by its 8 rows: each thread reads all of the gain."""
    b = Builder("g")
    gain = b.op("silu", b.input("v", F32, 8))
    b.output(b.op("rms_norm", b.input("x", F32, 8, 8), gain, epsilon=1e-5))
    assert barriers_of(b) == [False, True]


def test_a_chain_reads_whole_the_row_that_it_repeats() -> None:
    """The row has as many elements as there are rows, but a thread adds all of it to each of its own."""
    for size in (8, "T"):
        b = Builder("g")
        row = b.op("silu", b.input("v", F32, size))
        b.output(b.op("silu", b.op("bias", b.input("x", F32, size, size), row)))
        assert chain_lengths(b) == [1, 2]
        assert barriers_of(b) == [False, True]


def test_rows_are_those_of_the_dimension_that_the_kernel_names() -> None:
    """gather_rows divides R rows of y and reads any row of x."""
    b = Builder("g")
    x = b.op("silu", b.input("x", F32, "T", 8))
    y = b.op("gather_rows", x, b.input("rows", I32, "R"))
    b.output(b.op("silu", y))
    plan = Compiler(b.graph()).plan({"T": 8, "R": 8})
    assert [launch.barrier for launch in plan.launches] == [False, True, False]


def chain_lengths(graph_of: Builder) -> list[int]:
    graph = graph_of.graph()
    return [len(group) for group in chain.chains(graph, [resolve(node, graph.types) for node in graph.nodes])]


def elementwise(links: int) -> Builder:
    b = Builder("g")
    x = b.input("x", F32, "T", 8)
    for _ in range(links):
        x = b.op("silu", x)
    b.output(x)
    return b


def test_chains_are_neighbours_whose_values_nobody_else_reads() -> None:
    assert chain_lengths(elementwise(3)) == [3]
    assert chain_lengths(elementwise(chain.MOST + 2)) == [chain.MOST, 2]
    b = elementwise(3)
    b.output("x0")
    assert chain_lengths(b) == [1, 2], "an output must be stored"
    b = elementwise(2)
    b.output(b.op("add", "x0", "x1"))
    assert chain_lengths(b) == [1, 1, 1], "x0 is read twice, x1 is an output"
    b = Builder("g")
    x, w = b.input("x", F32, "T", 32), b.weight("w", F32, 32, 32)
    b.output(b.op("silu", b.op("linear", b.op("silu", x), w)))
    assert chain_lengths(b) == [1, 1, 1]
    b = Builder("g")
    x, y = b.input("x", F32, "T", 32), b.input("y", F32, "R", 32)
    b.op("silu", x)
    b.output(b.op("silu", y))
    assert chain_lengths(b) == [1, 1], "other rows, another chain"


def test_a_chain_never_needs_more_registers_than_there_are() -> None:
    b = Builder("g")
    x = b.input("x", F32, "T", 8)
    for number in range(12):
        x = b.op("add", x, b.input(f"y{number}", F32, "T", 8))
    b.output(x)
    graph = b.graph()
    groups = chain.chains(graph, [resolve(node, graph.types) for node in graph.nodes])
    plan = Compiler(graph).plan({"T": 8})
    for group in groups:
        (launch,) = [launch for launch in plan.launches if launch.nodes == tuple(group)]
        _, _, _, _, count, *words = launch.arguments
        blocks = [word for word in words[1::5] if word < REGISTERS]
        assert len(words) == 5 * count and len(group) - 1 == len(blocks) and max(words[1::5]) < 2 * REGISTERS
    assert [index for group in groups for index in group] == list(range(12))
    assert all(one[-1] + 1 == other[0] for one, other in pairwise(groups))


def test_no_kernel_is_an_error_that_says_what_would_do() -> None:
    kernels = tuple(Kernel(name, "", ("day", name)) for name in ("monday", "sunday"))
    rest = replace(registry.get("silu"), kernels=kernels)
    site = Site(rest, (ValueType.of(F32, 3),), (), {}, {"day": "tuesday"})
    with pytest.raises(ContractError) as caught:
        choose(Node("rest", (), ("y",), name="n"), site)
    assert caught.value.place == 'node "n" (rest)'
    assert caught.value.want == "day is monday; or day is sunday" and "float32[3]" in caught.value.got


def test_depth_takes_no_memory() -> None:
    """Values alive at different times share memory: ten norms after each other take what three do."""

    def arena(depth: int) -> int:
        b = Builder("deep")
        x = b.input("x", F32, "T", 64)
        gain = b.weight("gain", F32, 64)
        for index in range(depth):
            x = b.op("rms_norm", x, gain, name=f"n{index}", output=f"x{index}", epsilon=1e-5)
            x = b.op(
                "gather_rows", x, b.input(f"rows{index}", I32, "T"), name=f"g{index}", output=f"y{index}"
            )
        b.output(x)
        plan = Compiler(b.graph()).plan({"T": 1000})
        return plan.arena - depth * 4000

    assert arena(10) <= arena(3) + 10 * 64

"""SmolLM2 has the golden digests on every processor, however it runs (numerics.md)."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.kernels.call import call
from assay.llm.engine import Engine
from assay.llm.language_model import LanguageModel
from assay.llm.request import Sampling
from assay.llm.scheduler import Share
from assay.llm.step import step_inputs
from assay.runtime.cpu import Cpu
from every_op.levels import digests as child
from every_op.levels import runs
from llm.digests import GOLDEN, PROMPT, digests, engine_like, greedy, nodes, sha

Load = Callable[..., LanguageModel]
LEVELS = ("baseline", "avx2", "avx512")
LONG = 600
"""Keys over a page, a superblock of 512, and a page of the next one."""


@pytest.fixture(scope="module")
def golden() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((GOLDEN / "nodes.json").read_text())
    return found


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_nodes_and_tokens_on_any_number_of_threads(
    threads: int, load: Load, golden: dict[str, dict[str, str]]
) -> None:
    device = Cpu(threads)
    assert digests(load(), device) == golden["short"]
    device.close()


def test_float32_activations(load: Load, text: list[int], golden: dict[str, dict[str, str]]) -> None:
    lm = load(activations="float32")
    found = nodes(lm.engine, lm.engine.executor.device, text[:PROMPT])
    assert {name: found[name] for name in golden["float32"]} == golden["float32"]


@pytest.mark.parametrize("level", ["host", *LEVELS])
def test_other_processes_and_processors(
    level: str, smollm2_path: Path, golden: dict[str, dict[str, str]]
) -> None:
    """A child with the instructions of that level; assay checks that this processor has them."""
    if level != "host" and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("levels are x86-64's")
    if level != "host" and not runs(level):
        pytest.skip(f"this processor has no {level}")
    assert child(level, "-m", "llm.digests", str(smollm2_path), "2") == golden["short"]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="sets MXCSR")
def test_flush_to_zero_set_by_someone_else(load: Load, golden: dict[str, dict[str, str]]) -> None:
    """Set in the thread that starts the team, before it does."""
    state = np.zeros(1, np.int64)
    call("runtime.float_kernels:get_state", state)
    device = Cpu(3)
    call("runtime.float_kernels:set_state", int(state[0]) | 0x8040)
    try:
        found = digests(load(), device)
    finally:
        call("runtime.float_kernels:set_state", int(state[0]))
    assert found == golden["short"]
    device.close()


def long_prompt(text: list[int]) -> list[int]:
    return (text + text)[:LONG]


def test_a_long_prompt(load: Load, text: list[int], golden: dict[str, dict[str, str]]) -> None:
    """The last of 600 rows of logits, and the tokens after it, at several budgets."""
    lm = load()
    prompt = long_prompt(text)
    assert sha(lm.logits(prompt)[-1]) == golden["long"]["logits"]
    device = lm.engine.executor.device
    for budget in (512, 1024, 100):
        engine = engine_like(lm.engine, device)
        engine.budget = budget
        assert greedy(engine, prompt, 8) == golden["long"]["tokens"]


def logits_of_pieces(engine: Engine, prompt: list[int], cuts: list[int]) -> str:
    """The digest of the last row of logits of a prompt that is run in pieces."""
    sequence = engine.add(prompt, Sampling(max_tokens=1))
    row = np.zeros(0, np.float32)
    for end in [*cuts, len(prompt)]:
        count = end - sequence.computed
        sequence.hold(engine.pages, count)
        share = Share(sequence, count, 1)
        outputs = engine.executor.run(*step_inputs([share], engine.vocabulary))
        row = outputs["logits"][0].astype(np.float32)
        sequence.computed += count
    engine.cancel(sequence)
    return sha(row)


@settings(max_examples=4)
@given(cuts=st.lists(st.integers(1, 199), max_size=4, unique=True).map(sorted))
def test_a_prompt_cut_anywhere(load: Load, text: list[int], cuts: list[int]) -> None:
    lm = load()
    whole = logits_of_pieces(lm.engine, text[:200], [])
    assert logits_of_pieces(lm.engine, text[:200], cuts) == whole


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 32), budget=st.sampled_from((40, 512)))
def test_any_company(load: Load, text: list[int], seed: int, count: int, budget: int) -> None:
    """One request alone, and among others of random lengths and sampling that come while it runs."""
    rng = np.random.default_rng(seed)
    mine = (text[: int(rng.integers(1, 200))], Sampling(max_tokens=6, temperature=0.9, top_p=0.9, seed=1))
    lm = load()

    def answer(others: int) -> tuple[list[int], list[float]]:
        engine = engine_like(lm.engine, lm.engine.executor.device)
        engine.budget = budget if others else 512
        arrivals = sorted(rng.integers(0, 5, others).tolist())
        sequence = None
        for turn in range(1000):
            if turn == min(2, others):
                sequence = engine.add(*mine)
            while arrivals and arrivals[0] <= turn:
                arrivals.pop(0)
                start, length = int(rng.integers(0, 300)), int(rng.integers(1, 120))
                heat = float(rng.choice([0.0, 1.0]))
                engine.add(text[start : start + length], Sampling(max_tokens=5, temperature=heat, seed=turn))
            engine.step()
            engine.check_integrity()
            if sequence and sequence.drawn == sequence.limit:
                return sequence.tokens[sequence.prompt_length :], sequence.logprobs
        raise AssertionError("no answer")

    assert answer(count - 1) == answer(0)

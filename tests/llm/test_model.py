"""SmolLM2 as a whole: as accurate as promised, and the same bits whatever else happens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import assay
from assay.llm.engine import Engine
from assay.llm.language_model import LanguageModel
from assay.llm.request import Sampling

GOLDEN = Path(__file__).parents[1] / "golden" / "smollm2"
Answer = tuple[list[int], list[float]]
Load = Callable[..., LanguageModel]


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
    return result


def divergence(reference: NDArray[np.float32], found: NDArray[np.float32]) -> NDArray[np.float64]:
    """The Kullback-Leibler divergence of `found` from `reference` at each position, in nats."""
    p, q = log_softmax(reference), log_softmax(found)
    result: NDArray[np.float64] = (np.exp(p) * (p - q)).sum(axis=-1)
    return result


def answer(engine: Engine, prompt: list[int], sampling: Sampling) -> Answer:
    (only,) = answers(engine, [(prompt, sampling)])
    return only


def answers(engine: Engine, requests: list[tuple[list[int], Sampling]]) -> list[Answer]:
    """Tokens and log-probabilities of requests that run together."""
    sequences = [engine.add(prompt, sampling) for prompt, sampling in requests]
    while engine.busy:
        engine.step()
        engine.check_integrity()
    return [(sequence.tokens[sequence.prompt_length :], sequence.logprobs) for sequence in sequences]


def test_accuracy(load: Load, text: list[int]) -> None:
    """Against float32 logits of transformers: 1e-6 with float32 activations; and the fast path against that,
    where llama.cpp's 4-bit × 8-bit arithmetic has 0.0028 and 0.048 on the same text."""
    golden = np.load(GOLDEN / "logits.npz")
    exact = load(activations="float32").logits(text)
    assert divergence(golden["logits"], exact[golden["positions"]]).max() <= 1e-6
    fast = divergence(exact, load().logits(text))
    assert fast.mean() <= 0.0031
    assert fast.max() <= 0.05


def mixed(text: list[int]) -> list[tuple[list[int], Sampling]]:
    """32 requests of many lengths and kinds of sampling."""
    kinds = [
        {},
        {"temperature": 0.8, "seed": 3},
        {"temperature": 1.2, "top_k": 20, "seed": 4},
        {"temperature": 1.0, "top_p": 0.7, "seed": 5},
    ]
    lengths = [1, 2, 63, 64, 65, 130, 7, 300]
    return [
        (text[index : index + lengths[index % 8]], Sampling(max_tokens=4 + index % 5, **kinds[index // 8]))
        for index in range(32)
    ]


def test_company_changes_nothing(load: Load, text: list[int]) -> None:
    engine = load().engine
    requests = mixed(text)
    together = answers(engine, requests)
    some = [0, 7, 9, 13, 21, 23, 31]
    assert [answer(engine, *requests[index]) for index in some] == [together[index] for index in some]
    assert answers(engine, requests[5:7]) == together[5:7]


@pytest.mark.parametrize("budget", [1, 7, 64, 100])
def test_the_cut_of_a_prompt_changes_nothing(budget: int, load: Load, text: list[int]) -> None:
    engine = load().engine
    sampling = Sampling(max_tokens=3, temperature=0.9, seed=1)
    prompt = text[: 70 if budget == 1 else 500]
    whole = answer(engine, prompt, sampling)
    engine.budget, before = budget, engine.budget
    try:
        assert answer(engine, prompt, sampling) == whole
    finally:
        engine.budget = before


@pytest.mark.parametrize("threads", [1, 3, 4])
def test_threads_change_nothing(threads: int, load: Load, text: list[int]) -> None:
    sampling = Sampling(max_tokens=3, temperature=0.9, seed=1)
    expected = answer(load().engine, text[:200], sampling)
    assert answer(load(threads=threads).engine, text[:200], sampling) == expected


def test_golden_digests(load: Load, text: list[int]) -> None:
    """64 greedy tokens after 450 (keys cross a page and a superblock), and the last row of 500 logits."""
    lm = load()
    tokens, _ = answer(lm.engine, text[:450], Sampling(max_tokens=64))
    row = lm.logits(text)[-1]
    found = {
        "tokens": hashlib.sha256(np.array(tokens, "<i4").tobytes()).hexdigest(),
        "logits": hashlib.sha256(row.astype("<f4").tobytes()).hexdigest(),
    }
    assert found == json.loads((GOLDEN / "digests.json").read_text())


@pytest.mark.parametrize("name", ["logits", "hidden_states"])
def test_arrays_outlive_later_steps_and_go_to_others_without_a_copy(
    load: Load, text: list[int], name: str
) -> None:
    lm = load()
    array = getattr(lm, name)(text[:40])
    shared, before = np.from_dlpack(array), array.copy()
    assert np.shares_memory(shared, array) and array.flags.writeable and array.__dlpack_device__() == (1, 0)
    lm.generate("Another text", max_tokens=4)
    del array
    assert (shared == before).all()


def test_one_run_for_each_step(load: Load, text: list[int]) -> None:
    engine = load().engine
    runs, steps = engine.executor.runs, engine.steps
    answers(engine, mixed(text)[:9])
    assert engine.executor.runs - runs == engine.steps - steps > 0


def test_a_context_that_is_too_long_is_refused_with_the_numbers(load: Load, text: list[int]) -> None:
    engine = load().engine
    with pytest.raises(assay.RequestError) as refused:
        engine.add(text * 5, Sampling(max_tokens=3))
    assert "2500 prompt tokens and 3 new ones" in refused.value.got
    assert "2048" in refused.value.want
    engine.check_integrity()


def test_few_pages(smollm2_path: Path, load: Load, text: list[int]) -> None:
    """Sequences that don't all fit give their pages back and start again; nothing is lost or changed."""
    small = assay.load(smollm2_path, threads=2, context=512, cache_tokens=512).engine
    requests = [
        (text[index : index + 120], Sampling(max_tokens=20, temperature=1.0, seed=index))
        for index in range(6)
    ]
    found = answers(small, requests)
    assert small.pages.free == small.pages.count
    assert found == answers(load().engine, requests)


def test_random_arrivals_and_cancellations(smollm2_path: Path, load: Load, text: list[int]) -> None:
    engine = assay.load(smollm2_path, threads=2, context=256, cache_tokens=384).engine
    rng = np.random.default_rng(11)
    living = []
    for _ in range(60):
        if rng.random() < 0.4 and len(living) < 6:
            prompt = text[: int(rng.integers(1, 150))]
            living.append(engine.add(prompt, Sampling(max_tokens=int(rng.integers(1, 40)))))
        if rng.random() < 0.15 and living:
            engine.cancel(living.pop(int(rng.integers(len(living)))))
        engine.step()
        engine.check_integrity()
    for sequence in living:
        engine.cancel(sequence)
    engine.check_integrity()
    assert engine.pages.free == engine.pages.count

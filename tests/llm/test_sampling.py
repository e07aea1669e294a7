"""Requests that change their logits: against plain NumPy, with guesses, and refused by field."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from assay.errors import RequestError
from assay.llm.controls import Controls, stacked
from assay.llm.engine import Engine
from assay.llm.guesses import Guesses, Lookup
from assay.llm.request import Sampling
from assay.ops import registry
from assay.runtime.cpu import Cpu
from llm.small import Small

PROMPT = [5, 6, 7, 5, 6, 7, 5, 9]


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    device = Cpu(1, capacity=1 << 30)
    yield Small(device)
    device.close()


def tokens_of(engine: Engine, sampling: Sampling, prompt: list[int] = PROMPT) -> list[int]:
    sequence = engine.add(prompt, sampling)
    while engine.busy:
        engine.step()
    return sequence.tokens[len(prompt) :]


def adjusted(
    logits: NDArray[np.float32], prompt: list[int], output: list[int], sampling: Sampling
) -> NDArray[np.float32]:
    """By the meaning that OpenAI, Hugging Face and vLLM share, token by token."""
    x, times = logits.copy(), Counter(output)
    for token in {*prompt, *output}:
        penalty = np.float32(sampling.repetition_penalty)
        x[token] = x[token] / penalty if x[token] > 0 else x[token] * penalty
    for token, count in times.items():
        x[token] -= np.float32(sampling.frequency_penalty) * np.float32(count)
        x[token] -= np.float32(sampling.presence_penalty)
    for token, bias in sampling.logit_bias.items():
        x[token] += np.float32(bias)
    return x


CHANGES = (
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"presence_penalty": 2.0},
    {"frequency_penalty": 0.7},
    {"frequency_penalty": -0.5},
    {"logit_bias": {17: 100, 18: 100.0, 19: -3}},
    {"repetition_penalty": 1.2, "presence_penalty": 0.3, "frequency_penalty": 0.9, "logit_bias": {5: 2.5}},
)


@pytest.mark.parametrize("seed", range(20))
def test_rows_say_what_a_request_means(seed: int) -> None:
    """Drawn after each token, guessed ones too, by the operator's reference."""
    rng, count = np.random.default_rng(seed), 90
    some = rng.choice(count, 12, replace=False).tolist()
    sampling = Sampling(
        repetition_penalty=rng.choice([1.0, 1.7]).item(), presence_penalty=0.5, frequency_penalty=0.25,
        logit_bias=dict(zip(some[:8], rng.uniform(-9, 9, 8).tolist(), strict=True)),
        bad_words=[[some[8]], [some[9], some[0]]], min_tokens=6,
    )  # fmt: skip
    prompt, *answer = ([*map(int, rng.choice(some, size))] for size in (7, 5, 3))
    held = Controls(sampling, prompt, count, [some[10]], None)
    logits = rng.normal(0, 4, (1, count)).astype(np.float32)
    reference = registry.get("adjust").reference
    for read, guesses in (([], []), (answer[0], answer[1]), ([*answer[0], *answer[1]], [])):
        rows = held.rows([*prompt, *read], guesses, len(guesses) + 1)
        asking = np.zeros(len(rows), np.int32)
        inputs = {name.partition(".")[2]: array for name, array in stacked(rows, count).items()}
        found = reference(logits, asking, *inputs.values())
        for row, result in enumerate(np.asarray(found)):
            output = [*read, *guesses[:row]]
            wanted = adjusted(logits[0], prompt, output, sampling)
            barred = [some[8], *([some[0]] if output[-1:] == [some[9]] else [])]
            wanted[[*barred, *([some[10]] if len(output) < 6 else [])]] = -np.inf
            np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("changes", CHANGES)
def test_greedy_takes_the_greatest_adjusted_logit(small: Small, changes: dict[str, object]) -> None:
    """After a few tokens, and after more different ones than the counts have room for at first."""
    for prompt in (PROMPT, [*range(60), *PROMPT, *range(200, 320)]):
        sampling = Sampling(max_tokens=24, **changes)  # type: ignore[arg-type]
        output = tokens_of(small.engine(), sampling, prompt)
        logits = small.engine().output("logits", [*prompt, *output])
        for drawn, token in enumerate(output):
            row = logits[len(prompt) + drawn - 1]
            assert token == int(adjusted(row, prompt, output[:drawn], sampling).argmax()), drawn
        assert output != tokens_of(small.engine(), Sampling(max_tokens=24), prompt)


def test_logprobs_are_the_models_own(small: Small) -> None:
    """Of the logits before anything is changed; each row's probabilities are those of float64."""
    engine = small.engine()
    sequence = engine.add(PROMPT, Sampling(max_tokens=9, temperature=0.8, seed=1, logit_bias={17: 30.0}))
    while engine.busy:
        engine.step()
    rows = small.engine().output("logits", sequence.tokens[:-1])[len(PROMPT) - 1 :].astype(np.float64)
    for row, token, logprob in zip(rows, sequence.tokens[len(PROMPT) :], sequence.logprobs, strict=True):
        # Below 32 in size: rounding is 2^-20 at most, the error of the sum is below 2^-20 too.
        assert abs(row[token] - np.log(np.exp(row).sum()) - logprob) < 2.0**-19


@pytest.mark.parametrize(
    "changes",
    [*CHANGES, {"temperature": 0.4, "seed": 5, "frequency_penalty": -0.9, "min_p": 0.02, "typical_p": 0.9}],
)
def test_guesses_change_nothing(small: Small, changes: dict[str, object]) -> None:
    """A row after guesses has them in its history, and a guess that failed leaves it again."""
    sampling = Sampling(max_tokens=60, **changes)  # type: ignore[arg-type]
    guessing = small.engine()
    guessing.guesses = Guesses(Lookup())
    found = tokens_of(guessing, sampling, PROMPT * 3)
    assert found == tokens_of(small.engine(), sampling, PROMPT * 3)


def test_a_request_is_the_same_in_any_company(small: Small) -> None:
    """Rows that ask for nothing, and for different things, in the same steps."""
    asked = [
        Sampling(max_tokens=9, temperature=1.0, seed=seed, **changes)  # type: ignore[arg-type]
        for seed, changes in enumerate(CHANGES)
    ]
    asked[1::2] = [Sampling(max_tokens=9), *asked[3::2]]
    together = small.engine()
    sequences = [together.add(PROMPT, sampling) for sampling in asked]
    while together.busy:
        together.step()
    for sampling, sequence in zip(asked, sequences, strict=True):
        alone = small.engine()
        again = alone.add(PROMPT, sampling)
        while alone.busy:
            alone.step()
        assert (again.tokens, again.logprobs) == (sequence.tokens, sequence.logprobs)


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"min_p": 1.5}, "min_p"),
        ({"min_p": float("nan")}, "min_p"),
        ({"typical_p": 0}, "typical_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty"),
        ({"presence_penalty": -2.1}, "presence_penalty"),
        ({"frequency_penalty": "1"}, "frequency_penalty"),
        ({"logit_bias": [3]}, "logit_bias"),
        ({"logit_bias": {"3": 1.0}}, "logit_bias"),
        ({"logit_bias": {3: 101}}, "logit_bias[3]"),
        ({"logit_bias": {320: 1}}, "logit_bias"),
    ],
)
def test_fields_out_of_range_are_refused(small: Small, fields: dict[str, object], place: str) -> None:
    with pytest.raises(RequestError) as refused:
        small.engine().add(PROMPT, Sampling(**fields))  # type: ignore[arg-type]
    assert refused.value.place == place and refused.value.want and refused.value.got

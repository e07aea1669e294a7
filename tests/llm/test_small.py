"""A tiny llama: as transformers computes it, and its engines under random arrivals, cuts and few pages."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import PrecisionOverflow, RequestError
from assay.kernels.sizes import PAGE
from assay.llm.guesses import Guesses
from assay.llm.request import Sampling
from assay.llm.sequence import Sequence, State
from assay.ops.sample import choose, uniform
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F16, F32, Q4_1, Q8_0
from llm.small import GOLDEN, Small

Request = tuple[tuple[int, ...], Sampling]
Answer = tuple[list[int], list[float]]


@pytest.fixture(scope="module")
def device() -> Iterator[Cpu]:
    made = Cpu(2, capacity=1 << 30)
    yield made
    made.close()


@pytest.fixture(scope="module")
def small(device: Cpu) -> Small:
    return Small(device, Q8_0, F16)


@pytest.fixture(scope="module")
def alone(small: Small) -> dict[Request, Answer]:
    """Answers of requests that ran alone, kept from test to test."""
    return {}


def answer_alone(small: Small, kept: dict[Request, Answer], request: Request) -> Answer:
    if request not in kept:
        engine = small.engine(pages=8)
        sequence = engine.add(*request)
        while engine.busy:
            engine.step()
        kept[request] = answer(sequence)
    return kept[request]


def answer(sequence: Sequence) -> Answer:
    return sequence.tokens[sequence.prompt_length :], list(sequence.logprobs)


class Oracle:
    """Guesses a sequence's own answer, each token with this probability, or else another token."""

    def __init__(self, small: Small, alone: dict[Request, Answer], honesty: float) -> None:
        self._small, self._alone, self._honesty = small, alone, honesty
        self._chance = np.random.default_rng(0)

    def guess(self, sequence: Sequence, most: int) -> list[int]:
        request = tuple(sequence.tokens[: sequence.prompt_length]), sequence.sampling
        tokens = answer_alone(self._small, self._alone, request)[0][sequence.drawn :][:most]
        return [token if self._chance.random() < self._honesty else (token + 1) % 320 for token in tokens]


@pytest.mark.parametrize(
    "name", ["llama", "llama-wide", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"]
)
def test_logits_are_those_of_transformers(device: Cpu, name: str) -> None:
    """In float32 both are exact to rounding: 1e-4 of the greatest magnitude is a thousand times that."""
    folder = GOLDEN / name
    tokens = np.load(folder / "tokens.npy").tolist()
    positions, expected = np.load(folder / "positions.npy"), np.load(folder / "output.npy")
    found = Small(device, None, F32, name=name).engine().output("logits", tokens)[positions]
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_logits_are_a_map_of_the_hidden_states(device: Cpu) -> None:
    """In float32, sums of 64 products: 64 · 2⁻²⁴ of the sum of magnitudes is the most that they are off."""
    small = Small(device, None, F32, name="llama")
    tokens = np.load(GOLDEN / "llama" / "tokens.npy").tolist()
    hidden, logits = (small.engine().output(name, tokens).astype(np.float64) for name in ("final", "logits"))
    head = small.source.raw("output.weight").view(np.float32).reshape(320, 64).astype(np.float64)
    bound = 64 * 2.0**-24 * (np.abs(hidden) @ np.abs(head.T))
    assert hidden.shape == (len(tokens), 64) and (np.abs(logits - hidden @ head.T) <= bound).all()


def test_a_sum_of_every_token_is_attended_to(device: Cpu) -> None:
    """The last position's logits change with the first token: nothing of a long context is lost."""
    engine = Small(device, F32, F32).engine()
    tokens = np.random.default_rng(1).integers(0, 320, 500).tolist()
    changed = [(tokens[0] + 1) % 320, *tokens[1:]]
    first, second = engine.output("logits", tokens), engine.output("logits", changed)
    assert (first[-1] != second[-1]).any() and (first[0] != second[0]).any()


requests = st.builds(
    lambda length, salt, drawn, kind, seed: (
        tuple(np.random.default_rng(salt).integers(0, 320, length).tolist()),
        Sampling(max_tokens=drawn, seed=seed, **kind),
    ),
    st.one_of(st.integers(1, 12), st.integers(1, 140)),
    st.integers(0, 5),
    st.integers(1, 70),
    st.sampled_from(
        (
            {},
            {"temperature": 1.0},
            {"temperature": 0.7, "top_k": 9, "min_p": 0.01},
            {"temperature": 1.3, "top_p": 0.8, "typical_p": 0.9},
            {"repetition_penalty": 1.5, "frequency_penalty": 0.5},
            {"temperature": 1.0, "presence_penalty": 0.5, "logit_bias": {7: 5.0, 300: -100}},
        )
    ),
    st.integers(0, 3),
)
actions = st.lists(st.one_of(requests, st.just("step"), st.integers(0, 7)), min_size=1, max_size=40)
"""Add a request, step, or cancel the nth living sequence."""


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(
    script=actions,
    pages=st.integers(2, 9),
    budget=st.sampled_from((1, 5, 64, 512)),
    honesty=st.sampled_from((None, 0.0, 0.7, 1.0)),
)
def test_any_order_of_events_gives_each_request_its_own_answer(
    small: Small,
    alone: dict[Request, Answer],
    script: list[object],
    pages: int,
    budget: int,
    honesty: float | None,
) -> None:
    """The books agree after each step, a step is one run, what finishes has the tokens that it has alone:
    prompts begin alike, and guesses come true as often as `honesty` says (None: nobody guesses).
    """
    guesses = None if honesty is None else Guesses(Oracle(small, alone, honesty))
    engine = small.engine(pages=pages, context=256, budget=budget, guesses=guesses)
    living: list[tuple[Sequence, Request]] = []

    def step() -> None:
        runs = engine.executor.runs
        before = {sequence.number: sequence.length for sequence, _ in living}
        done = sum(sequence.ran for sequence, _ in living)
        drawn = engine.step()
        assert sum(sequence.ran for sequence, _ in living) - done <= budget
        assert engine.executor.runs - runs == (1 if engine.busy or drawn else 0)
        engine.check_integrity()
        grown = {item.number for item, _ in living if item.length > before[item.number]}
        assert {item.sequence.number for item in drawn} == grown
        for sequence, request in [item for item in living if item[0].state is State.FINISHED]:
            living.remove((sequence, request))
            assert answer(sequence) == answer_alone(small, alone, request)

    for action in script:
        if isinstance(action, tuple):
            needed = len(action[0]) + (action[1].max_tokens or 1)
            if needed > min(256, pages * PAGE):
                with pytest.raises(RequestError, match="the context is too long"):
                    engine.add(*action)
            else:
                living.append((engine.add(*action), action))
        elif isinstance(action, int):
            if action < len(living):
                sequence, request = living.pop(action)
                engine.cancel(sequence)
                engine.check_integrity()
                done, own = answer(sequence), answer_alone(small, alone, request)
                assert done == (own[0][: len(done[0])], own[1][: len(done[1])])
        elif engine.busy:
            step()
    for _ in range(5000):
        if not engine.busy:
            break
        step()
    assert not engine.busy and not living, "an engine that gets nowhere"
    assert engine.pages.free == engine.pages.count


def test_sequences_give_way_and_start_again(small: Small, alone: dict[Request, Answer]) -> None:
    """Four sequences that grow to three pages each, and five pages: some must give theirs back."""
    engine = small.engine(pages=5, context=256)
    wanted = [
        (tuple(range(index, index + 60)), Sampling(max_tokens=100, temperature=1.0, seed=index))
        for index in range(4)
    ]
    sequences = [engine.add(*request) for request in wanted]
    preempted = 0
    while engine.busy:
        before = [sequence.computed for sequence in sequences]
        engine.step()
        engine.check_integrity()
        preempted += sum(
            sequence.computed < computed and sequence.state is not State.FINISHED
            for sequence, computed in zip(sequences, before, strict=True)
        )
    assert preempted > 0
    assert [answer(sequence) for sequence in sequences] == [
        answer_alone(small, alone, request) for request in wanted
    ]


@pytest.mark.parametrize("dtype", [F32, F16, Q4_1])
def test_cuts_anywhere_change_no_logit(device: Cpu, dtype: object) -> None:
    """All positions' logits in one piece, and in pieces of each length that a budget gives."""
    model = Small(device, dtype, F16)  # type: ignore[arg-type]
    prompt = np.random.default_rng(2).integers(0, 320, 200).tolist()
    whole = model.engine().output("logits", prompt)
    for budget in (1, 7, 33, 64, 100):
        engine = model.engine(budget=budget)
        sequence = engine.add(prompt, Sampling(max_tokens=1))
        while not (drawn := engine.step()):
            pass
        assert drawn[0].token == int(whole[-1].argmax()), budget
        assert sequence.logprobs == answer_of_whole(model, prompt), budget


def answer_of_whole(model: Small, prompt: list[int]) -> list[float]:
    engine = model.engine()
    sequence = engine.add(prompt, Sampling(max_tokens=1))
    engine.step()
    return list(sequence.logprobs)


def test_requests_that_cannot_be_served_are_refused_by_field(small: Small) -> None:
    engine = small.engine(pages=3, context=256)
    for prompt, place, want in (
        ([], "prompt", "at least one token"),
        ([1, 2, 320], "prompt[2]", "0 to 319"),
        ([1, -1], "prompt[1]", "0 to 319"),
    ):
        with pytest.raises(RequestError) as refused:
            engine.add(prompt, Sampling())
        assert refused.value.place == place and refused.value.want == want
    with pytest.raises(RequestError) as refused:
        engine.add([1] * 150, Sampling(max_tokens=43))
    assert refused.value.want == "at most 192 tokens in all"
    assert refused.value.got == "150 prompt tokens and 43 new ones"
    assert refused.value.hint == "shorten the prompt, or ask for at most 42 new tokens"
    engine.add([1] * 150, Sampling(max_tokens=42))


def test_a_context_runs_to_its_end(small: Small) -> None:
    """Without a limit a sequence goes on to the context's last token, and no further."""
    engine = small.engine(pages=9, context=100)
    sequence = engine.add([5, 6, 7], Sampling(seed=1))
    while engine.busy:
        engine.step()
        engine.check_integrity()
    assert sequence.length == 100 and sequence.state is State.FINISHED


def test_damaged_weights_end_sequences_and_the_engine_lives_on(device: Cpu) -> None:
    """A NaN in the first layer's value map is found by the cache, in the node that writes it."""
    bad = np.zeros((32, 64), np.float32)
    bad[3, 5] = np.nan
    engine = Small(device, F32, F16, {"blk.0.attn_v.weight": bad}).engine()
    sequence = engine.add([1, 2, 3], Sampling(max_tokens=2))
    assert engine.step() == [] and not engine.busy
    assert sequence.reason == "error" and isinstance(sequence.error, PrecisionOverflow)
    assert sequence.error.place == 'llama › node "blk.0.cache" (cache_write)'
    engine.check_integrity()
    assert engine.pages.free == engine.pages.count


@pytest.mark.parametrize("weight", ["token_embd.weight", "output.weight"])
def test_a_bad_row_ends_its_own_sequence_only(device: Cpu, weight: str) -> None:
    """One token's embedding is no number: whoever has that token in the prompt ends, the others go on. When
    it's a row of the output map, each logit row is bad, in the sampler.
    """
    table = np.random.default_rng(0).normal(0, 0.1, (320, 64)).astype(np.float32)
    table[300, 7] = np.nan
    damaged = Small(device, F32, F16, {weight: table}).engine(budget=20)
    prompts = [[5, 6, 7], [300, 8], list(range(40)), [9, 300, 10], [11]]
    sequences = [damaged.add(prompt, Sampling(max_tokens=1)) for prompt in prompts]
    for _ in range(60):
        damaged.step()
        damaged.check_integrity()
    assert not damaged.busy and damaged.pages.free == damaged.pages.count
    reasons = [sequence.reason for sequence in sequences]
    if weight == "output.weight":
        assert reasons == ["error"] * 5
        return
    assert reasons == ["length", "error", "length", "error", "length"]
    for sequence in (sequences[0], sequences[2], sequences[4]):
        whole = Small(device, F32, F16, {weight: np.nan_to_num(table)}).engine()
        again = whole.add(sequence.tokens[: sequence.prompt_length], Sampling(max_tokens=1))
        while whole.busy:
            whole.step()
        assert again.tokens == sequence.tokens and again.logprobs == sequence.logprobs


def test_a_draw_belongs_to_its_place(small: Small) -> None:
    """What is drawn depends on the seed and the absolute position: to go on from the tokens so far gives the
    same ones. A stream is taken up again after a crash by this.
    """
    sampling = Sampling(max_tokens=12, temperature=1.5, seed=5)
    engine = small.engine()
    whole = engine.add([1, 2, 3], sampling)
    while engine.busy:
        engine.step()
    for cut in range(4, 15):
        rest = engine.add(whole.tokens[:cut], Sampling(max_tokens=15 - cut, temperature=1.5, seed=5))
        while engine.busy:
            engine.step()
        assert rest.tokens == whole.tokens


def test_a_draw_is_that_of_its_seed_and_absolute_position(small: Small) -> None:
    """By the sampler's reference, on the logits of the tokens before it."""
    engine = small.engine()
    sequence = engine.add([4, 5, 6], Sampling(max_tokens=20, temperature=1.5, seed=2**40 + 7))
    while engine.busy:
        engine.step()
    logits = engine.output("logits", sequence.tokens)
    for position in range(3, sequence.length):
        draw = uniform(2**40 + 7, 0, position)
        assert choose(logits[position - 1], 1.5, 0, 0.0, 1.0, 1.0, draw=draw)[0] == sequence.tokens[position]


def test_an_end_token_ends(small: Small) -> None:
    engine = small.engine()
    free = engine.add([1, 2, 3], Sampling(max_tokens=6))
    while engine.busy:
        engine.step()
    engine.ends = frozenset(free.tokens[-3:-2])
    ended = engine.add([1, 2, 3], Sampling(max_tokens=6))
    while engine.busy:
        engine.step()
    first = free.tokens.index(free.tokens[-3], 3) + 1
    assert ended.tokens == free.tokens[:first] and ended.reason == "stop" and free.reason == "length"


def test_an_interrupted_step_is_computed_again(
    small: Small, alone: dict[Request, Answer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C at any call inside a step: nothing is lost, nothing comes twice."""
    engine = small.engine(pages=8)
    requests: list[Request] = [((1, 2, 3), Sampling(max_tokens=4)), ((7,) * 70, Sampling(max_tokens=4))]
    sequences = [engine.add(*request) for request in requests]
    for place in ("_run", "_take"):
        with monkeypatch.context() as patch:
            patch.setattr(engine, place, _interrupt)
            with pytest.raises(KeyboardInterrupt):
                engine.step()
        engine.check_integrity()
        engine.step()
    while engine.busy:
        engine.step()
        engine.check_integrity()
    for request, sequence in zip(requests, sequences, strict=True):
        assert answer(sequence) == answer_alone(small, alone, request)


def _interrupt(*arguments: object) -> None:
    raise KeyboardInterrupt

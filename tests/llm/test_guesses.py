"""Guesses cost or save steps and change no token: by what was said before, and by a smaller model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import assay
from assay.errors import RequestError
from assay.llm import guesses
from assay.llm.guesses import Guesses, Lookup
from assay.llm.language_model import LanguageModel
from assay.llm.request import Sampling
from assay.llm.scheduler import schedule
from assay.llm.sequence import Sequence as Request
from assay.llm.sequence import State
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F16, F32, Q8_0
from llm import tiny
from llm.small import Small

Load = Callable[..., LanguageModel]
FRANCE = "The capital of France is"


@pytest.fixture(scope="module")
def device() -> Iterator[Cpu]:
    made = Cpu(2, capacity=1 << 30)
    yield made
    made.close()


def request(tokens: list[int], new: int = 100) -> Request:
    return Request(1, tokens, Sampling(max_tokens=new), 0, new, 4)


def test_lookup_guesses_what_followed_the_last_tokens_the_last_time() -> None:
    lookup = Lookup()
    sequence = request([1, 2, 3, 4, 5, 1, 2, 3, 9, 8, 1, 2, 3])
    assert lookup.guess(sequence, 4) == [9, 8, 1, 2]
    sequence.append(7, 0.0)
    assert lookup.guess(sequence, 4) == []
    for token in (1, 2, 3):
        sequence.append(token, 0.0)
    assert lookup.guess(sequence, 4) == [7, 1, 2, 3]


def test_trust_grows_with_success_and_rests_after_failures() -> None:
    class All:
        def guess(self, sequence: Request, most: int) -> Sequence[int]:
            return [0] * most

    offers, sequence = Guesses(All()), request([1, 2])
    sequence.computed = 1
    counts = []
    for _ in range(4):
        counts.append(len(offers.offer([sequence])[sequence]))
        offers.learn(sequence, counts[-1], counts[-1])
    assert counts == [guesses.FIRST, guesses.MOST, guesses.MOST, guesses.MOST]
    pauses = []
    for _ in range(8):
        offers.offer([sequence])
        offers.learn(sequence, 2, 0)
        pauses.append(0)
        while sequence not in offers.offer([sequence]):
            pauses[-1] += 1
        offers.learn(sequence, 1, 1)
    assert pauses[0] >= 1 and max(pauses) <= guesses.LONGEST_PAUSE
    assert offers.offer([sequence] * (guesses.FEW + 1)) == {}
    offers.stop(sequence)
    assert all(sequence not in offers.offer([sequence]) for _ in range(200))


def test_a_repetitive_text_takes_fewer_steps_and_has_the_same_bits(load: Load) -> None:
    """The real model copies a list: with guesses it takes a fraction of the steps."""
    prompt = "\n".join(f"- item number {index % 4} of the list" for index in range(24)) + "\n"
    found = {}
    for on in (True, False):
        lm = load(guesses=on)
        before = lm.engine.steps
        answer = lm.generate(prompt, max_tokens=80)
        found[on] = (answer.tokens, answer.logprobs)
        if on:
            assert lm.engine.steps - before < 50
    assert found[True] == found[False]


def test_a_guess_that_overflows_does_not_fail_its_sequence(device: Cpu) -> None:
    """Token 300 is no number: nobody draws it, and a guess of it must not end who would not have."""

    class Bad:
        def guess(self, sequence: Request, most: int) -> Sequence[int]:
            return [300] * most

    table = np.random.default_rng(0).normal(0, 0.1, (320, 64)).astype(np.float32)
    table[300, 7] = np.nan
    planted = Small(device, F32, F16, {"token_embd.weight": table})
    plain, guessing = planted.engine(), planted.engine(guesses=Guesses(Bad()))
    sequences = [engine.add([1, 2, 3], Sampling(max_tokens=9)) for engine in (plain, guessing)]
    while plain.busy or guessing.busy:
        plain.step()
        guessing.step()
        guessing.check_integrity()
    assert sequences[0].tokens == sequences[1].tokens and sequences[1].reason == "length"


def test_guesses_end_with_the_answer_the_context_and_the_page(device: Cpu) -> None:
    """Whatever is guessed, no token is drawn behind an end token, the limit or the context."""
    small = Small(device, Q8_0, F16)
    free = small.engine(context=100).add([5, 6, 7], Sampling(seed=1))

    def run(honest: bool, end: int | None) -> Request:
        plain = small.engine(context=100)
        known = plain.add([5, 6, 7], Sampling())
        while known.state is not State.FINISHED:
            plain.step()

        class Known:
            def guess(self, sequence: Request, most: int) -> Sequence[int]:
                return known.tokens[sequence.length : sequence.length + most]

        engine = small.engine(context=100, guesses=Guesses(Known()) if honest else None)
        engine.ends = frozenset(() if end is None else (end,))
        sequence = engine.add([5, 6, 7], Sampling())
        while engine.busy:
            engine.step()
            engine.check_integrity()
        return sequence

    whole = run(True, None)
    assert whole.tokens == run(False, None).tokens and whole.length == 100 and free.limit == 97
    end = whole.tokens[40]
    assert run(True, end).tokens == run(False, end).tokens


def test_a_draft_model_guesses(smollm2_path: Path, load: Load) -> None:
    """The model as its own draft: all guesses come true, with temperature too, by the shared draws."""
    lm = assay.load(smollm2_path, threads=2, context=256, draft=smollm2_path)
    plain = load(guesses=False)
    for sampling in ({}, {"temperature": 0.8, "seed": 3}):
        before = lm.engine.steps
        drafted = lm.generate(FRANCE, max_tokens=40, **sampling)  # type: ignore[arg-type]
        steps = lm.engine.steps - before
        alone = plain.generate(FRANCE, max_tokens=40, **sampling)  # type: ignore[arg-type]
        assert (drafted.tokens, drafted.logprobs) == (alone.tokens, alone.logprobs)
        assert steps <= 1 + len(drafted.tokens) // 3
    lm.close()


def test_a_draft_with_other_tokens_is_refused(tmp_path: Path, smollm2_path: Path) -> None:
    other = tiny.write(tmp_path / "other.gguf")
    with pytest.raises(RequestError, match="a draft model with other tokens"):
        assay.load(smollm2_path, threads=1, context=64, draft=other)


@pytest.mark.parametrize(("budget", "most"), [(10, 64), (4, 64), (64, 9), (64, 64)])
def test_guesses_take_no_other_sequences_turn(budget: int, most: int) -> None:
    """Each that decodes has its token; guesses take what is left of the step's tokens and rows."""
    running = [request([1, 2, 3]) for _ in range(4)]
    for sequence in running:
        sequence.computed = 2
        sequence.take(0)
    offered = dict.fromkeys(running, (7,) * 7)
    plan = schedule(running, (), 0, budget, most, guesses=offered)
    assert [share.sequence for share in plan.shares] == running
    assert all(share.rows == share.count == 1 + len(share.guesses) for share in plan.shares)
    assert sum(share.count for share in plan.shares) == min(budget, most, 4 * 8)

"""Prompts that begin like earlier ones: what is computed, which pages go, and that no bit changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import HardwareFault, SchedulingDeadlock
from assay.llm.engine import Engine
from assay.llm.language_model import LanguageModel
from assay.llm.pages import Pages
from assay.llm.request import Sampling
from assay.llm.sequence import Sequence
from assay.runtime.cpu import Cpu
from assay.tensor.dtype import F16, Q8_0
from llm.small import Small

Load = Callable[..., LanguageModel]


@pytest.fixture(scope="module")
def small() -> Iterator[Small]:
    device = Cpu(2, capacity=1 << 30)
    yield Small(device, Q8_0, F16)
    device.close()


def finish(engine: Engine, prompt: list[int], new: int = 1) -> Sequence:
    sequence = engine.add(prompt, Sampling(max_tokens=new))
    while engine.busy:
        engine.step()
        engine.check_integrity()
    return sequence


def prompt_of(length: int, salt: int = 0) -> list[int]:
    return [(index * index + salt) % 320 for index in range(length)]


@pytest.mark.parametrize("common", [0, 1, 40, 63, 64, 65, 128, 200])
def test_only_what_differs_is_computed(small: Small, common: int) -> None:
    """To the token, within pages too; and the answer is that of an engine that starts cold."""
    engine = small.engine()
    first, other = prompt_of(200), prompt_of(250, 1)
    second = first[:common] + other[common : common + 50]
    finish(engine, first, 3)
    found = finish(engine, second, 5)
    cold = finish(small.engine(), second, 5)
    assert found.reused == common and found.ran == len(second) - common + 4
    assert found.tokens == cold.tokens and found.logprobs == cold.logprobs


def test_the_same_prompt_computes_its_last_token(small: Small) -> None:
    """Its logits are needed; and an answer's own tokens are found as well when it is asked on."""
    engine = small.engine()
    first = finish(engine, prompt_of(100), 30)
    assert finish(engine, prompt_of(100), 1).ran == 1
    assert finish(engine, [*first.tokens, 7], 1).ran == 2, "the answer's last token, and the new one"


def test_a_running_sequence_is_found_while_it_goes_on(small: Small) -> None:
    """What a copy takes of a page that is still being written is what was computed of it."""
    engine = small.engine()
    first = engine.add(prompt_of(90), Sampling(max_tokens=60))
    while first.drawn < 10:
        engine.step()
    second = engine.add(prompt_of(90), Sampling(max_tokens=60))
    while engine.busy:
        engine.step()
        engine.check_integrity()
    assert second.reused == 89 and second.tokens == first.tokens


def test_the_page_that_was_let_go_first_is_used_again_first(small: Small) -> None:
    """Four pages, prompts of a page each: the fourth pushes out the one that nobody asked for longest, and of
    one prompt the end goes before the beginning.
    """
    engine = small.engine(pages=4, context=256)
    for salt in (1, 2, 3):
        finish(engine, prompt_of(64, salt))
    finish(engine, prompt_of(64, 1))  # asked for again, and a copy of its page made
    finish(engine, prompt_of(64, 4))
    assert [finish(engine, prompt_of(64, salt)).reused for salt in (4, 1)] == [63, 63]
    whole = small.engine(pages=4, context=256)
    finish(whole, prompt_of(190))
    finish(whole, prompt_of(100, 9))
    assert finish(whole, prompt_of(190)).reused in (64, 128)


def test_a_page_belongs_to_all_that_is_before_it(small: Small) -> None:
    """The same pages after another first one are other rows of the cache."""
    engine = small.engine()
    first, other, same, last = (prompt_of(64, salt) for salt in range(4))
    finish(engine, first + same + last)
    finish(engine, other + same)
    found = finish(engine, [*other, *same, *last, 7], 5)
    cold = finish(small.engine(), [*other, *same, *last, 7], 5)
    assert found.reused == 128 and (found.tokens, found.logprobs) == (cold.tokens, cold.logprobs)


def test_what_is_being_pushed_out_is_not_found(small: Small) -> None:
    """Of three pages the one that was let go first goes to a sequence that grows into it; who had filled it
    asks again meanwhile.
    """
    engine = small.engine(pages=3, context=256)
    wanted = prompt_of(64, 1)
    finish(engine, wanted)
    finish(engine, prompt_of(64, 2))
    growing = engine.add(prompt_of(60, 3), Sampling(max_tokens=20))
    while growing.drawn < 8:
        engine.step()
    found, cold = finish(engine, wanted, 1), finish(small.engine(), wanted, 1)
    assert found.reused == 0 and (found.tokens, found.logprobs) == (cold.tokens, cold.logprobs)


def test_without_a_prefix_cache_nothing_is_found(small: Small) -> None:
    engine = small.engine()
    engine.prefixes._copy = None
    finish(engine, prompt_of(100))
    assert finish(engine, prompt_of(100)).ran == 100


def test_a_thousand_common_tokens_of_the_real_model(load: Load, text: list[int]) -> None:
    """Bits are equal cold and warm, and the timings say what was computed."""
    lm, cold = load(prefix_cache=True), load()
    shared = lm.tokenizer.decode([*text, *text])
    first, second = f"{shared} One question.", f"{shared} Another question."
    lm.generate(first, max_tokens=4)
    warm, other = lm.generate(second, max_tokens=8), cold.generate(second, max_tokens=8)
    rest = warm.usage.prompt_tokens - warm.timings.cached_tokens
    assert warm.timings.cached_tokens >= 990 and rest <= 12
    assert warm.timings.computed_tokens <= rest + 7 + 7, "some guesses may be wrong"
    assert other.timings.cached_tokens == 0 and other.timings.hit_rate == 0.0 < warm.timings.hit_rate
    assert (warm.tokens, warm.logprobs) == (other.tokens, other.logprobs)


@given(st.integers(1, 6), st.lists(st.tuples(st.sampled_from("akrs"), st.integers(0, 5)), max_size=40))
def test_pages_are_never_lost(count: int, script: list[tuple[str, int]]) -> None:
    """Allocate, keep, release, share at random: the books agree, and as many pages can be had as are free."""
    evicted: list[int] = []
    pages, held = Pages(count, evicted.append), list[int]()
    kept: set[int] = set()
    for action, index in script:
        if action == "a" and pages.free:
            held.append(pages.allocate())
            kept -= set(evicted)
        elif action == "k" and held:
            pages.keep(held[index % len(held)])
            kept.add(held[index % len(held)])
        elif action == "r" and held:
            pages.release(held.pop(index % len(held)))
        elif action == "s" and kept:
            page = sorted(kept)[index % len(kept)]
            pages.share(page)
            held.append(page)
        pages.check_integrity([held])
        assert pages.free == count - len(set(held))
    with pytest.raises(SchedulingDeadlock, match="the cache's books don't agree"):
        pages.check_integrity([*[held], [0]])
    for _ in range(pages.free):
        held.append(pages.allocate())
    with pytest.raises(HardwareFault, match="the cache is full"):
        pages.allocate()

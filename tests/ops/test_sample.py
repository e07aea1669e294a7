from __future__ import annotations

import numpy as np
import pytest

from assay.ops.sample import choose, philox, uniform

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "output"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_has_the_authors_known_answers(
    counter: tuple[int, ...], key: tuple[int, ...], output: tuple[int, ...]
) -> None:
    """Philox4x32-10 in Random123's kat_vectors."""
    assert philox(counter, key) == output


def test_philox_of_64_bits_is_numpys() -> None:
    """NumPy has the 64-bit sibling of the same rounds; it counts up before it draws."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        counter, key = rng.integers(0, 2**63, 4).tolist(), rng.integers(0, 2**63, 2).tolist()
        numpy = np.random.Philox(counter=np.array(counter, np.uint64), key=np.array(key, np.uint64))
        after = counter[0] + 1, *counter[1:]
        assert list(philox(after, key, 64)) == numpy.random_raw(4).tolist()


def test_uniform_takes_words_of_seed_choice_and_position() -> None:
    low, high, _, _ = philox((5, 3, 0, 0), (0x89ABCDEF, 0x01234567))
    assert uniform(0x0123456789ABCDEF, 3, 5) == (high * 2**32 + low) / 2**64
    draws = np.array([uniform(1, 0, position) for position in range(4000)])
    assert draws.min() >= 0 and draws.max() < 1
    # The mean of n uniforms is within 4 · √(1/12 n) of a half.
    assert abs(draws.mean() - 0.5) < 4 * (12 * 4000) ** -0.5


def test_choose_by_hand() -> None:
    logits = np.log(np.array([1, 4, 2, 1], np.float32))  # candidates 1, 2, 0, 3 with 1/2, 1/4, 1/8, 1/8
    taken = [
        choose(logits, 1.0, 0, 0.0, 1.0, 1.0, draw=draw)[0]
        for draw in (0, 0.49, 0.51, 0.74, 0.76, 0.874, 0.876, 0.999)
    ]
    assert taken == [1, 1, 2, 2, 0, 0, 3, 3]
    assert choose(logits, 0.0, 0, 0.0, 1.0, 1.0, draw=0.9) == (1, np.inf)
    # p is 1/2, 1/4, 1/8, 1/8: the entropy is 1.75 bits, and the second is nearest to it, then the first.
    for settings, kept in (
        ((2, 0.0, 1.0, 1.0), {1, 2}),
        ((0, 0.0, 1.0, 0.8), {1, 2, 0}),
        ((0, 0.4, 1.0, 1.0), {1, 2}),
        ((0, 0.0, 0.2, 1.0), {2}),
        ((0, 0.0, 0.7, 1.0), {1, 2}),
        ((0, 0.0, 0.2, 0.9), {2}),
    ):
        draws = np.linspace(0, 0.999, 50)
        assert {choose(logits, 1.0, *settings, draw=draw)[0] for draw in draws} == kept, settings
    token, margin = choose(logits, 1.0, 0, 0.0, 1.0, 1.0, draw=0.6)
    assert token == 2 and margin == pytest.approx(0.1)

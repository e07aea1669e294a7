"""The prompts: a text that correctness is checked on, and tokens drawn by chance for timing."""

from __future__ import annotations

from pathlib import Path

import numpy as np

TEXT = Path(__file__).with_name("harbour.txt").read_text("utf-8")
VOCABULARY = (100, 48000)
"""Ordinary tokens of every engine's vocabulary."""


def random_prompts(seed: int, count: int, length: int) -> list[list[int]]:
    """Prompts of `length` tokens: what they mean doesn't change the work, and no engine has them cached."""
    drawn: list[list[int]] = np.random.default_rng(seed).integers(*VOCABULARY, (count, length)).tolist()
    return drawn

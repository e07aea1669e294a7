"""How a text is cut into words before their bytes are merged, by the names that GGUF gives to the ways."""

from __future__ import annotations

from collections.abc import Callable

from tokenizers import pre_tokenizers


def _smollm() -> pre_tokenizers.PreTokenizer:
    """Each digit by itself, then GPT-2's pattern on what lies between."""
    digits = pre_tokenizers.Digits(individual_digits=True)
    words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return pre_tokenizers.Sequence([digits, words])


PRE_TOKENIZERS: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {"smollm": _smollm}

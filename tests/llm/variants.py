"""The GGUF tokenizers that are held against llama.cpp: small vocabularies under several keys."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

from llm.corpus import corpus
from llm.tries import compatible, table

# One name of each family of pre-tokenizers.
PRE = [
    "gpt-2", "smollm", "llama-bpe", "dbrx", "glm4", "qwen2", "qwen35", "seed-coder", "tekken", "gpt-4o",
    "deepseek-v3", "deepseek-coder", "deepseek-llm", "falcon", "bloom", "viking", "default",
]  # fmt: skip


def variants(vocabularies: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """The keys `tokenizer.ggml.*` by name."""
    found = {f"gpt2 {pre}": {**vocabularies["bytes"], "pre": pre} for pre in PRE}
    for prefix in (True, False):
        named = f"prefix {prefix}"
        found[f"llama {named}"] = {**vocabularies["llama"], "add_space_prefix": prefix}
        found[f"t5 {named}"] = {
            **vocabularies["t5"], "add_space_prefix": prefix, "remove_extra_whitespaces": prefix
        }  # fmt: skip
    characters = np.frombuffer(table(compatible(corpus())), np.uint8)
    found["t5 characters"] = {
        **vocabularies["t5"], "precompiled_charsmap": characters, "remove_extra_whitespaces": True
    }  # fmt: skip
    found["llama closed"] = {**vocabularies["llama"], "add_bos_token": False, "add_eos_token": True}
    found["bert"] = dict(vocabularies["bert"])
    found["bert cased"] = {**vocabularies["bert"], "normalizer.lowercase": False}
    return found


def digest(plain: list[int], whole: list[int]) -> int:
    """32 bits of the ids of one text: plain, and with control tokens and what goes around it."""
    return zlib.crc32(np.array([*plain, -1, *whole], "<i4").tobytes())

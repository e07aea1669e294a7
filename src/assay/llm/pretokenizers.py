"""How a text is cut into words before their bytes are merged, by the names that GGUF gives to the ways."""

from __future__ import annotations

from dataclasses import dataclass

from tokenizers import Regex, pre_tokenizers


@dataclass(frozen=True)
class PreTokenizer:
    """Each pattern in turn cuts what is left by the ones before into its matches and what lies between.

    `ignore_merges`: a word that is a token is that token, whatever merges would make of it. `adds_bos` holds
    where a file doesn't say.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    adds_bos: bool = False

    def build(self) -> pre_tokenizers.PreTokenizer:
        """The library's own, with the words spelled in bytes at the end."""
        cuts = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in self.patterns]
        in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        return pre_tokenizers.Sequence([*cuts, in_bytes])


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

PRE_TOKENIZERS: dict[str, PreTokenizer] = {"smollm": PreTokenizer((r"\p{N}", _GPT2))}

KNOWN_PATTERNS = frozenset(pattern for way in PRE_TOKENIZERS.values() for pattern in way.patterns)

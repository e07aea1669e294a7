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


# What the patterns are made of: English endings, words, marks, and the space between words and lines.
_ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACE = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _by_case(ending: str, digits: str) -> str:
    """Words that change from lower to upper case are cut there."""
    word = r"[^\r\n\p{L}\p{N}]?"
    words = f"{word}{_UPPER}*{_LOWER}+{ending}|{word}{_UPPER}+{_LOWER}*{ending}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE}"


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1,3}}|{_MARKS}|{_SPACE}"
_QWEN2 = rf"{_ENDINGS}|{_WORD}|\p{{N}}|{_MARKS}|{_SPACE}"
_QWEN35 = (
    rf"{_ENDINGS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACE}"
)
_SEED = rf"{_ENDINGS}|{_WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACE}"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACE}"
)
_CASED = (  # the cased letters of Unicode 10, without those of scripts that have come to case late
    r"[\p{Lu}\p{Ll}\p{Lt}&&[^\x{560}-\x{588}\x{10C7}-\x{10FF}\x{1C80}-\x{1C8A}\x{2D00}-\x{2D2D}"
    r"\x{A790}-\x{A7FF}\x{AB30}-\x{AB68}\x{10570}-\x{105BC}\x{10D50}-\x{10D85}\x{16E40}-\x{16E7F}"
    r"\x{1D400}-\x{1DF2A}]]"
)
_DEEPSEEK_MARKS = r"\s?[!-/:-~！-／：-～‘-‟　-。]+"
_DEEPSEEK_HAN = "[一-龥ࠀ-一가-퟿]+"

_FAMILIES: dict[str, PreTokenizer] = {
    "gpt-2 phi-2 mpt olmo jais trillion gigachat a.x-4.0 mellum modern-bert roberta-bpe exaone4": (
        PreTokenizer((_GPT2,))
    ),
    "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2": PreTokenizer((r"\p{N}", _GPT2)),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2": (
        PreTokenizer((_LLAMA3,), ignore_merges=True, adds_bos=True)
    ),
    "dbrx smaug-bpe chatglm-bpe": PreTokenizer((_LLAMA3,)),
    "glm4 glm5": PreTokenizer((_LLAMA3,), ignore_merges=True),
    "qwen2 deepseek-r1-qwen stablelm2 hunyuan solar-open megrez grok-2 kormo": PreTokenizer((_QWEN2,)),
    "qwen35": PreTokenizer((_QWEN35,)),
    "seed-coder": PreTokenizer((_SEED,)),
    "tekken": PreTokenizer((_by_case("", r"\p{N}"),), ignore_merges=True, adds_bos=True),
    "gpt-4o llama4 kanana2 minimax-m2": PreTokenizer((_by_case(f"{_ENDINGS}?", r"\p{N}{1,3}"),)),
    "deepseek-v3 hunyuan-dense joyai-llm": PreTokenizer((r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK3)),
    "deepseek-coder": PreTokenizer((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_HAN, r"\p{N}")),
    "deepseek-llm": PreTokenizer(
        (r"[\r\n]", rf"\s?{_CASED}+", _DEEPSEEK_MARKS, r"\s+$", _DEEPSEEK_HAN, r"\p{N}+")
    ),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "bloom poro-chat gpt3-finnish": PreTokenizer((_BLOOM,)),
    "viking": PreTokenizer((_BLOOM, r"\p{N}")),
    "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
}
PRE_TOKENIZERS = {name: way for names, way in _FAMILIES.items() for name in names.split()}
KNOWN_PATTERNS = frozenset(pattern for way in _FAMILIES.values() for pattern in way.patterns) | {" {2,}"}
"""The patterns of these families, as tokenizer.json has them, too."""

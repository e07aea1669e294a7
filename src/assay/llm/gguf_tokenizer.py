"""The tokenizer that a GGUF file's metadata describes, checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, repeat

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

from assay.llm.charsmap import Charsmap
from assay.llm.gguf_keys import Keys
from assay.llm.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from assay.llm.readings import Model, readings
from assay.llm.spelling import BYTE_TOKENS, SPACE, byte_level, sentence_piece, word_piece
from assay.llm.tokenizer import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Tokenizer

_END_KEYS = ("eot_token_id", "eom_token_id")
_END_TEXTS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>")
"""Control tokens that end an answer even where no key says so. A file has a key for one such token where the
model may have several: Qwen2's own configuration lists the first two. llama.cpp goes by these texts, too.
"""
_LONGEST_PIECE, _ALL_PIECES = 512, 1 << 23
"""Characters: the time that pieces take grows with their number, and with the square of the longest."""
_KEEP_SPACE = ("<unk>", "<s>", "<|endoftext|>")


# The library's model, how a text is cut before, and how it is changed before that.
_Way = tuple[Model, pre_tokenizers.PreTokenizer | None, normalizers.Normalizer | None]


@dataclass(frozen=True)
class _Kind:
    """What a value of tokenizer.ggml.model stands for, and what holds where a file has no such key.

    `bos` and `closing`: a key, then other keys or texts of tokens, in order of preference.
    """

    way: Callable[[Keys, dict[str, int], NDArray[np.uint8]], _Way]
    spelling: Callable[[str], bytes]
    bos: tuple[str, ...] = ("bos_token_id",)
    closing: tuple[str, ...] = ("eos_token_id",)
    adds_bos: bool = False
    adds_eos: bool = False
    adds_key: str = "add_eos_token"
    space_prefix: bool = False
    shrinks: int = 0


def read(metadata: Mapping[str, object]) -> Tokenizer:
    """Raises FormatError: the key, what came, what is supported."""
    keys = Keys(metadata)
    kind = _KINDS[keys.choice("model", _KINDS)]
    ids, kinds = _vocabulary(keys, kind.spelling is word_piece)
    adds_bos = keys.flag("add_bos_token", kind.adds_bos or (kind.way is _byte_level and _pre(keys).adds_bos))
    adds_eos = keys.flag(kind.adds_key, kind.adds_eos)
    bos_id = _named(keys, kind.bos, ids, "as add_bos_token is true" if adds_bos else "")
    closing_id = _named(keys, kind.closing, ids, f"as {kind.adds_key} is true" if adds_eos else "")
    eos_id = closing_id if kind.closing[0] == "eos_token_id" else keys.token_id("eos_token_id", len(ids))
    control = _of(ids, kinds, UNKNOWN, CONTROL)
    ends = {eos_id} | {keys.token_id(key, len(ids)) for key in _END_KEYS}
    ends |= {ids[text] for text in _END_TEXTS if text in control}
    # Converters copy this flag from files of byte-level BPE, too, where no text is given a space.
    prefix = keys.flag("add_space_prefix", kind.space_prefix) and kind.spelling is not byte_level
    # No key says it, but most of Phi-3's named tokens take the spaces after them, too. llama.cpp goes by the
    # model's name as well.
    name = str(metadata.get("general.name", "")).lower()
    keeps = _KEEP_SPACE if "phi-3" in name or "phi3" in name else ids
    named = [
        AddedToken(name, normalized=False, special=special, rstrip=name not in keeps)
        for special, names in ((False, _of(ids, kinds, USER_DEFINED)), (True, control))
        for name in names
    ]
    model, cut, normal = kind.way(keys, ids, kinds)
    frame = Library(models.BPE())
    frame.pre_tokenizer, frame.normalizer = cut, normal
    try:
        plain, special = readings(model, named, frame)
    except Exception as error:  # the library raises nothing narrower
        want = "tokens, and pairs of them that are a token when joined"
        raise keys.error("merges" if "merges" in model else "tokens", want, str(error)) from error
    return Tokenizer(
        tokens=[*ids], kinds=kinds.tobytes(), ids=ids, spelling=kind.spelling,
        plain=plain, special=special, bos_id=bos_id, eos_id=eos_id, closing_id=closing_id,
        end_ids=frozenset(end for end in ends if end is not None), adds_bos=adds_bos, adds_eos=adds_eos,
        space_prefix=prefix, shrinks=kind.shrinks,
    )  # fmt: skip


def _vocabulary(keys: Keys, words: bool) -> tuple[dict[str, int], NDArray[np.uint8]]:
    """The tokens in order of ids, and what each of them is."""
    tokens = keys.strings("tokens")
    kinds = np.full(len(tokens), NORMAL, np.uint8)
    if "token_type" in keys:
        known = range(NORMAL, BYTE + 1)
        kinds = keys.numbers("token_type", len(tokens), int, known.__contains__, "1 to 6").astype(np.uint8)
    if words:
        normal = (kinds == NORMAL).tolist()
        tokens = [_continued(token) if usual else token for token, usual in zip(tokens, normal, strict=True)]
    _check_once(keys, "tokens", tokens)
    ids = {token: number for number, token in enumerate(tokens)}
    if "" in ids:
        raise keys.error(f"tokens[{ids['']}]", "a token that isn't empty", "''")
    for token in _of(ids, kinds, BYTE):
        if token not in BYTE_TOKENS:
            raise keys.error(f"tokens[{ids[token]}]", "a byte, <0x00> to <0xFF>", repr(token))
    return ids, kinds


def _of(ids: dict[str, int], kinds: NDArray[np.uint8], *wanted: int) -> list[str]:
    """The tokens of some kinds."""
    return list(compress(ids, np.isin(kinds, wanted).tolist()))


def _continued(token: str) -> str:
    """A word piece as BERT's own files spell it: GGUF marks what begins a word, those what continues one."""
    if token.startswith(SPACE) and token != SPACE:
        return token[1:]
    return token if token.startswith("[") and token.endswith("]") else "##" + token


def _named(keys: Keys, names: tuple[str, ...], ids: Mapping[str, int], why: str = "") -> int | None:
    """The token of the first of some keys that the file has, or the one of the last name. There must be one
    if it is said `why`.
    """
    for key in names:
        if key in keys:
            return keys.token_id(key, len(ids))
    if why and names[-1] not in ids:
        raise keys.error(names[0], f"a token id, {why}", "nothing")
    return ids.get(names[-1])


def _pre(keys: Keys) -> PreTokenizer:
    return PRE_TOKENIZERS[keys.choice("pre", PRE_TOKENIZERS)]


def _byte_level(keys: Keys, ids: dict[str, int], kinds: NDArray[np.uint8]) -> _Way:
    """BPE on bytes, which the file gives the merges of."""
    merges = keys.strings("merges")
    spaces = [*map(str.count, merges, repeat(" "))]
    if not {*spaces} <= {1}:
        number = next(number for number, count in enumerate(spaces) if count != 1)
        raise keys.error(f"merges[{number}]", "two tokens with a space between", repr(merges[number]))
    halves = " ".join(merges).split(" ") if merges else []
    pairs = list(zip(halves[::2], halves[1::2], strict=True))
    _check_once(keys, "merges", merges)
    pre = _pre(keys)
    model = {"type": "BPE", "vocab": ids, "merges": pairs, "ignore_merges": pre.ignore_merges}
    return model, pre.build(), None


def _scored(keys: Keys, ids: dict[str, int], kinds: NDArray[np.uint8]) -> _Way:
    """SentencePiece's BPE: of neighbours that make a token, those with the best score first."""
    if missing := [name for name in BYTE_TOKENS if name not in ids]:
        raise keys.error("tokens", "a token for every byte", f"none for {missing[0]}")
    tokens, made = [*ids], np.isin(kinds, (NORMAL, USER_DEFINED, UNUSED)).tolist()
    pairs: list[tuple[str, str]] = []
    for number in np.argsort(-_scores(keys, ids), kind="stable").tolist():
        token = tokens[number]
        for cut in range(len(token) - 1, 0, -1) if made[number] else ():
            if token[cut:] in ids and token[:cut] in ids:
                pairs.append((token[:cut], token[cut:]))
    model = {"type": "BPE", "vocab": ids, "merges": pairs, "byte_fallback": True}
    return model, None, _spaced(keys.flag("add_space_prefix", True))


def _unigram(keys: Keys, ids: dict[str, int], kinds: NDArray[np.uint8]) -> _Way:
    """SentencePiece's unigrams: the row of pieces with the greatest sum of scores."""
    steps = list[normalizers.Normalizer]()
    if "precompiled_charsmap" in keys:
        try:
            steps = [normalizers.Normalizer.custom(Charsmap(keys.raw("precompiled_charsmap")))]
        except ValueError as error:
            raise keys.error("precompiled_charsmap", "a table of SentencePiece's", str(error)) from error
    scores = np.where(kinds == USER_DEFINED, 0.0, _scores(keys, ids)).tolist()
    pieces = list(zip(ids, scores, strict=True))
    unknown = _named(keys, ("unknown_token_id", "<unk>"), ids, "for what can't be spelled")
    single = keys.flag("remove_extra_whitespaces")
    model = {"type": "Unigram", "vocab": pieces, "unk_id": unknown}
    spaced = _spaced(single or keys.flag("add_space_prefix"), single)
    return model, None, normalizers.Sequence([*steps, spaced])


def _spaced(prefix: bool, single: bool = False) -> normalizers.Normalizer:
    """SentencePiece's sign for spaces; one before the text, and no others but `single` ones, if asked."""
    steps: list[normalizers.Normalizer] = []
    if single:
        steps += [normalizers.Replace(Regex(r"\A +| +\z"), "")]
        steps += [normalizers.Replace(Regex(" +"), " ")]
    steps += [normalizers.Prepend(SPACE)] if prefix else []
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def _word_piece(keys: Keys, ids: dict[str, int], kinds: NDArray[np.uint8]) -> _Way:
    """BERT's word pieces: the longest that fits, again and again."""
    unknown = _named(keys, ("unknown_token_id", "[UNK]"), ids, "for what can't be spelled")
    lower = keys.flag("normalizer.lowercase", True)
    accents = keys.flag("normalizer.strip_accents", lower)
    spelled = next(token for token, n in ids.items() if n == unknown)
    model = {"type": "WordPiece", "vocab": ids, "unk_token": spelled}
    normal = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents)
    return model, pre_tokenizers.BertPreTokenizer(), normal


def _scores(keys: Keys, ids: dict[str, int]) -> NDArray[np.float64]:
    longest, total = max(map(len, ids), default=0), sum(map(len, ids))
    if longest > _LONGEST_PIECE or total > _ALL_PIECES:
        got = f"{longest:,}, and {total:,} in all"
        raise keys.error("tokens", f"at most {_LONGEST_PIECE} characters, {_ALL_PIECES:,} in all", got)
    return keys.numbers("scores", len(ids), float, math.isfinite, "a finite number")


def _check_once(keys: Keys, key: str, items: Sequence[str]) -> None:
    if len(set(items)) != len(items):
        twice, times = Counter(items).most_common(1)[0]
        raise keys.error(key, f"each {key.removesuffix('s')} once", f"{twice!r} {times} times")


_KINDS = {
    "gpt2": _Kind(_byte_level, byte_level, shrinks=1),
    "llama": _Kind(
        _scored, sentence_piece, ("bos_token_id", "<s>"), ("eos_token_id", "</s>"),
        adds_bos=True, space_prefix=True, shrinks=1,
    ),
    "t5": _Kind(_unigram, sentence_piece, closing=("eos_token_id", "</s>"), adds_eos=True),
    "bert": _Kind(
        _word_piece, word_piece, ("bos_token_id", "cls_token_id", "[CLS]"), ("seperator_token_id", "[SEP]"),
        adds_bos=True, adds_eos=True, adds_key="add_sep_token", space_prefix=True,
    ),
}  # fmt: skip
"""By the value of tokenizer.ggml.model. That key's spelling of "separator" is GGUF's own."""

"""The tokenizer that a GGUF file's metadata describes, checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Library

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


@dataclass(frozen=True)
class _Vocabulary:
    tokens: list[str]
    kinds: NDArray[np.uint8]
    ids: dict[str, int]

    def of(self, *kinds: int) -> list[str]:
        """The tokens of some kinds."""
        return list(compress(self.tokens, np.isin(self.kinds, kinds).tolist()))


# The library's model, how a text is cut before, and how it is changed before that.
_Way = tuple[Model, pre_tokenizers.PreTokenizer | None, normalizers.Normalizer | None]


@dataclass(frozen=True)
class _Kind:
    """What a value of tokenizer.ggml.model stands for, and what holds where a file has no such key.

    `bos` and `closing`: a key, then other keys or texts of tokens, in order of preference.
    """

    way: Callable[[Keys, _Vocabulary], _Way]
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
    vocabulary = _vocabulary(keys, kind.spelling is word_piece)
    ids, count = vocabulary.ids, len(vocabulary.ids)
    bos_id, closing_id = _named(keys, kind.bos, ids), _named(keys, kind.closing, ids)
    adds_bos = keys.flag("add_bos_token", kind.adds_bos or (kind.way is _byte_level and _pre(keys).adds_bos))
    adds_eos = keys.flag(kind.adds_key, kind.adds_eos)
    if adds_bos and bos_id is None:
        raise keys.error(kind.bos[0], "a token id, as add_bos_token is true", "nothing")
    if adds_eos and closing_id is None:
        raise keys.error(kind.closing[0], f"a token id, as {kind.adds_key} is true", "nothing")
    eos_id = closing_id if kind.closing[0] == "eos_token_id" else keys.token_id("eos_token_id", count)
    control = vocabulary.of(UNKNOWN, CONTROL)
    ends = {eos_id} | {keys.token_id(key, count) for key in _END_KEYS}
    ends |= {ids[text] for text in _END_TEXTS if text in control}
    # Converters copy this flag from files of byte-level BPE, too, where no text is given a space.
    prefix = keys.flag("add_space_prefix", kind.space_prefix) and kind.spelling is not byte_level
    # No key says it, but most of Phi-3's named tokens take the spaces after them, too. llama.cpp goes by the
    # model's name as well.
    name = str(metadata.get("general.name", "")).lower()
    keeps = _KEEP_SPACE if "phi-3" in name or "phi3" in name else ids
    named = [
        AddedToken(name, normalized=False, special=special, rstrip=name not in keeps)
        for special, names in ((False, vocabulary.of(USER_DEFINED)), (True, control))
        for name in names
    ]
    model, cut, normal = kind.way(keys, vocabulary)
    frame = Library(models.BPE())
    frame.pre_tokenizer, frame.normalizer = cut, normal
    try:
        plain, special = readings(model, named, frame)
    except Exception as error:  # the library raises nothing narrower
        want = "tokens, and pairs of them that are a token when joined"
        raise keys.error("merges" if "merges" in model else "tokens", want, str(error)) from error
    return Tokenizer(
        tokens=vocabulary.tokens, kinds=vocabulary.kinds.tobytes(), ids=ids, spelling=kind.spelling,
        plain=plain, special=special, bos_id=bos_id, eos_id=eos_id, closing_id=closing_id,
        end_ids=frozenset(end for end in ends if end is not None), adds_bos=adds_bos, adds_eos=adds_eos,
        space_prefix=prefix, shrinks=kind.shrinks,
    )  # fmt: skip


def _vocabulary(keys: Keys, words: bool) -> _Vocabulary:
    tokens = keys.strings("tokens")
    kinds = np.full(len(tokens), NORMAL, np.uint8)
    if "token_type" in keys:
        known = range(NORMAL, BYTE + 1)
        kinds = keys.numbers("token_type", len(tokens), int, known.__contains__, "1 to 6").astype(np.uint8)
    if words:
        normal = (kinds == NORMAL).tolist()
        tokens = [_continued(token) if usual else token for token, usual in zip(tokens, normal, strict=True)]
    _check_once(keys, "tokens", tokens)
    found = _Vocabulary(tokens, kinds, {token: number for number, token in enumerate(tokens)})
    if "" in found.ids:
        raise keys.error(f"tokens[{found.ids['']}]", "a token that isn't empty", "''")
    for token in found.of(BYTE):
        if token not in BYTE_TOKENS:
            raise keys.error(f"tokens[{found.ids[token]}]", "a byte, <0x00> to <0xFF>", repr(token))
    return found


def _continued(token: str) -> str:
    """A word piece as BERT's own files spell it: GGUF marks what begins a word, those what continues one."""
    if token.startswith(SPACE) and token != SPACE:
        return token[1:]
    return token if token.startswith("[") and token.endswith("]") else "##" + token


def _named(keys: Keys, names: tuple[str, ...], ids: Mapping[str, int]) -> int | None:
    """The token of the first of some keys that the file has, or the one of the last name."""
    for key in names:
        if key in keys:
            return keys.token_id(key, len(ids))
    return ids.get(names[-1])


def _unknown(keys: Keys, text: str, ids: Mapping[str, int]) -> int:
    found = _named(keys, ("unknown_token_id", text), ids)
    if found is None:
        raise keys.error("unknown_token_id", "the token of what can't be spelled", "nothing")
    return found


def _pre(keys: Keys) -> PreTokenizer:
    return PRE_TOKENIZERS[keys.choice("pre", PRE_TOKENIZERS)]


def _byte_level(keys: Keys, vocabulary: _Vocabulary) -> _Way:
    """BPE on bytes, which the file gives the merges of."""
    merges = keys.strings("merges")
    pairs = [tuple(merge.split(" ")) for merge in merges]
    if not {*map(len, pairs)} <= {2}:
        number = next(number for number, pair in enumerate(pairs) if len(pair) != 2)
        raise keys.error(f"merges[{number}]", "two tokens with a space between", repr(merges[number]))
    _check_once(keys, "merges", merges)
    pre = _pre(keys)
    model = {"type": "BPE", "vocab": vocabulary.ids, "merges": pairs, "ignore_merges": pre.ignore_merges}
    return model, pre.build(), None


def _scored(keys: Keys, vocabulary: _Vocabulary) -> _Way:
    """SentencePiece's BPE: of neighbours that make a token, those with the best score first."""
    ids = vocabulary.ids
    if missing := [name for name in BYTE_TOKENS if name not in ids]:
        raise keys.error("tokens", "a token for every byte", f"none for {missing[0]}")
    pairs: list[tuple[str, str]] = []
    for number in np.argsort(-_scores(keys, vocabulary), kind="stable").tolist():
        token, kind = vocabulary.tokens[number], vocabulary.kinds[number]
        for cut in range(len(token) - 1, 0, -1) if kind in (NORMAL, USER_DEFINED, UNUSED) else ():
            if token[cut:] in ids and token[:cut] in ids:
                pairs.append((token[:cut], token[cut:]))
    model = {"type": "BPE", "vocab": ids, "merges": pairs, "byte_fallback": True}
    return model, None, _spaced(keys.flag("add_space_prefix", True))


def _unigram(keys: Keys, vocabulary: _Vocabulary) -> _Way:
    """SentencePiece's unigrams: the row of pieces with the greatest sum of scores."""
    if "precompiled_charsmap" in keys:
        raise keys.error("precompiled_charsmap", "a vocabulary that replaces no characters", "a table")
    scores = np.where(vocabulary.kinds == USER_DEFINED, 0.0, _scores(keys, vocabulary)).tolist()
    pieces = list(zip(vocabulary.tokens, scores, strict=True))
    single = keys.flag("remove_extra_whitespaces")
    model = {"type": "Unigram", "vocab": pieces, "unk_id": _unknown(keys, "<unk>", vocabulary.ids)}
    return model, None, _spaced(single or keys.flag("add_space_prefix"), single)


def _spaced(prefix: bool, single: bool = False) -> normalizers.Normalizer:
    """SentencePiece's sign for spaces; one before the text, and no others but `single` ones, if asked."""
    steps: list[normalizers.Normalizer] = []
    if single:
        steps += [normalizers.Replace(Regex(r"\A +| +\z"), "")]
        steps += [normalizers.Replace(Regex(" +"), " ")]
    steps += [normalizers.Prepend(SPACE)] if prefix else []
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def _word_piece(keys: Keys, vocabulary: _Vocabulary) -> _Way:
    """BERT's word pieces: the longest that fits, again and again."""
    unknown = _unknown(keys, "[UNK]", vocabulary.ids)
    lower = keys.flag("normalizer.lowercase", True)
    accents = keys.flag("normalizer.strip_accents", lower)
    model = {"type": "WordPiece", "vocab": vocabulary.ids, "unk_token": vocabulary.tokens[unknown]}
    normal = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents)
    return model, pre_tokenizers.BertPreTokenizer(), normal


def _scores(keys: Keys, vocabulary: _Vocabulary) -> NDArray[np.float64]:
    longest, total = max(map(len, vocabulary.tokens), default=0), sum(map(len, vocabulary.tokens))
    if longest > _LONGEST_PIECE or total > _ALL_PIECES:
        got = f"{longest:,}, and {total:,} in all"
        raise keys.error("tokens", f"at most {_LONGEST_PIECE} characters, {_ALL_PIECES:,} in all", got)
    return keys.numbers("scores", len(vocabulary.tokens), float, math.isfinite, "a finite number")


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

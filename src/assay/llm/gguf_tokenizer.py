"""The tokenizer that a GGUF file's metadata describes, checked."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import compress

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import models, normalizers, pre_tokenizers

from assay.llm.gguf_keys import Keys
from assay.llm.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from assay.llm.spelling import BYTE_TOKEN, SPACE, byte_level, sentence_piece, word_piece
from assay.llm.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, UNUSED, USER_DEFINED, Vocabulary

_END_KEYS = ("eot_token_id", "eom_token_id")
_END_TEXTS = ("<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>")
"""Control tokens that end an answer even where no key says so. A file has a key for one such token where the
model may have several: Qwen2's own configuration lists the first two. llama.cpp goes by these texts, too.
"""
_LONGEST_PIECE, _ALL_PIECES = 512, 1 << 23
"""Characters: the time that pieces take grows with their number, and with the square of the longest."""
_KEEP_SPACE = ("<unk>", "<s>", "<|endoftext|>")


# Two models, without the control tokens' names and with them; how a text is cut; how it is changed before.
_Way = tuple[models.Model, models.Model, pre_tokenizers.PreTokenizer | None, normalizers.Normalizer | None]


@dataclass(frozen=True)
class _Model:
    """What a value of tokenizer.ggml.model stands for, and what holds where a file has no such key.

    `bos` and `closing`: a key, then other keys or texts of tokens, in order of preference.
    """

    way: Callable[[Keys, Vocabulary], _Way]
    spelling: Callable[[str], bytes]
    bos: tuple[str, ...] = ("bos_token_id",)
    closing: tuple[str, ...] = ("eos_token_id",)
    adds_bos: bool = False
    adds_eos: bool = False
    adds_key: str = "add_eos_token"
    space_prefix: bool = False


def read(metadata: Mapping[str, object]) -> tuple[Vocabulary, tokenizers.Tokenizer, tokenizers.Tokenizer]:
    """The vocabulary, and the tokenizers of plain text and of text with control tokens.

    Raises FormatError: the key, what came, what is supported.
    """
    keys = Keys(metadata)
    model = _MODELS[keys.choice("model", _MODELS)]
    vocabulary = _vocabulary(keys, model)
    plain, whole, cut, normal = model.way(keys, vocabulary)
    both = tokenizers.Tokenizer(plain), tokenizers.Tokenizer(whole)
    named = [vocabulary.user_defined, vocabulary.user_defined + vocabulary.control]
    # No key says it, but most of Phi-3's named tokens take the spaces after them, too. llama.cpp goes by the
    # model's name as well.
    name = str(metadata.get("general.name", "")).lower()
    keeps = _KEEP_SPACE if "phi-3" in name or "phi3" in name else vocabulary.ids
    for tokenizer, names in zip(both, named, strict=True):
        if cut is not None:
            tokenizer.pre_tokenizer = cut
        if normal is not None:
            tokenizer.normalizer = normal
        added = [tokenizers.AddedToken(name, normalized=False, rstrip=name not in keeps) for name in names]
        tokenizer.add_tokens(added)
    return vocabulary, both[0], both[1]


def _vocabulary(keys: Keys, model: _Model) -> Vocabulary:
    tokens = keys.strings("tokens")
    count = len(tokens)
    kinds = np.full(count, NORMAL, np.uint8)
    if "token_type" in keys:
        known = range(NORMAL, BYTE + 1)
        kinds = keys.numbers("token_type", count, int, known.__contains__, "1 to 6").astype(np.uint8)
    if model.spelling is word_piece:
        normal = (kinds == NORMAL).tolist()
        tokens = [_continued(token) if usual else token for token, usual in zip(tokens, normal, strict=True)]
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) != count:
        twice, times = Counter(tokens).most_common(1)[0]
        raise keys.error("tokens", "each token once", f"{twice!r} {times} times")
    if "" in ids:
        raise keys.error(f"tokens[{ids['']}]", "a token that isn't empty", "''")
    control, user_defined, in_bytes = (
        list(compress(tokens, np.isin(kinds, chosen).tolist()))
        for chosen in ((UNKNOWN, CONTROL), (USER_DEFINED,), (BYTE,))
    )
    for token in in_bytes:
        if not BYTE_TOKEN.fullmatch(token):
            raise keys.error(f"tokens[{ids[token]}]", "a byte, <0x00> to <0xFF>", repr(token))
    bos_id, closing_id = _named(keys, model.bos, ids), _named(keys, model.closing, ids)
    adds_bos = keys.flag(
        "add_bos_token", model.adds_bos or (model.way is _byte_level and _pre(keys).adds_bos)
    )
    adds_eos = keys.flag(model.adds_key, model.adds_eos)
    if adds_bos and bos_id is None:
        raise keys.error(model.bos[0], "a token id, as add_bos_token is true", "nothing")
    if adds_eos and closing_id is None:
        raise keys.error(model.closing[0], f"a token id, as {model.adds_key} is true", "nothing")
    eos_id = closing_id if model.closing[0] == "eos_token_id" else keys.token_id("eos_token_id", count)
    ends = {eos_id} | {keys.token_id(key, count) for key in _END_KEYS}
    ends |= {ids[text] for text in _END_TEXTS if text in control}
    # Converters copy this flag from files of byte-level BPE, too, where no text is given a space.
    prefix = keys.flag("add_space_prefix", model.space_prefix)
    return Vocabulary(
        tokens=tokens, kinds=kinds.tobytes(), ids=ids, control=control, user_defined=user_defined,
        spelling=model.spelling, space_prefix=prefix and model.spelling is not byte_level,
        bos_id=bos_id, eos_id=eos_id, closing_id=closing_id,
        end_ids=frozenset(end for end in ends if end is not None), adds_bos=adds_bos, adds_eos=adds_eos,
    )  # fmt: skip


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


def _unreachable(vocabulary: Vocabulary) -> list[str]:
    """The tokens in order of ids, the control ones under names that no text can spell."""
    names = {name: secrets.token_hex(16) for name in vocabulary.control}
    return [names.get(token, token) for token in vocabulary.tokens]


def _pre(keys: Keys) -> PreTokenizer:
    return PRE_TOKENIZERS[keys.choice("pre", PRE_TOKENIZERS)]


def _byte_level(keys: Keys, vocabulary: Vocabulary) -> _Way:
    """BPE on bytes, which the file gives the merges of."""
    merges = keys.strings("merges")
    _check_merges(keys, merges, vocabulary.control)
    halves = " ".join(merges).split(" ") if merges else []
    pairs = list(zip(halves[::2], halves[1::2], strict=True))
    pre = _pre(keys)
    cut = pre.build()
    try:
        plain = model = models.BPE(vocabulary.ids, pairs, ignore_merges=pre.ignore_merges)
        if pre.ignore_merges and any(len(cut.pre_tokenize_str(name)) == 1 for name in vocabulary.control):
            hidden = {token: number for number, token in enumerate(_unreachable(vocabulary))}
            plain = models.BPE(hidden, pairs, ignore_merges=True)
    except Exception as error:  # the library raises nothing narrower
        raise keys.error("merges", "pairs of tokens that are a token when joined", str(error)) from error
    return plain, model, cut, None


def _scored(keys: Keys, vocabulary: Vocabulary) -> _Way:
    """SentencePiece's BPE: of neighbours that make a token, those with the best score first."""
    ids = vocabulary.ids
    missing = [name for name in (f"<0x{byte:02X}>" for byte in range(256)) if name not in ids]
    if missing:
        raise keys.error("tokens", "a token for every byte", f"none for {missing[0]}")
    single = [name for name in vocabulary.control if len(name) == 1]
    if single:
        raise keys.error("tokens", "control tokens that text can't make", repr(single[0]))
    pairs: list[tuple[str, str]] = []
    for number in np.argsort(-_scores(keys, vocabulary), kind="stable").tolist():
        token, kind = vocabulary.tokens[number], vocabulary.kinds[number]
        for cut in range(len(token) - 1, 0, -1) if kind in (NORMAL, USER_DEFINED, UNUSED) else ():
            if token[cut:] in ids and token[:cut] in ids:
                pairs.append((token[:cut], token[cut:]))
    model = models.BPE(ids, pairs, byte_fallback=True)
    return model, model, None, _spaced(vocabulary.space_prefix)


def _unigram(keys: Keys, vocabulary: Vocabulary) -> _Way:
    """SentencePiece's unigrams: the row of pieces with the greatest sum of scores."""
    if "precompiled_charsmap" in keys:
        raise keys.error("precompiled_charsmap", "a vocabulary that replaces no characters", "a table")
    defined = np.frombuffer(vocabulary.kinds, np.uint8) == USER_DEFINED
    scores = np.where(defined, 0.0, _scores(keys, vocabulary)).tolist()
    unknown = _unknown(keys, "<unk>", vocabulary.ids)
    plain, model = (
        models.Unigram(list(zip(tokens, scores, strict=True)), unknown)
        for tokens in (_unreachable(vocabulary), vocabulary.tokens)
    )
    single = keys.flag("remove_extra_whitespaces")
    return plain, model, None, _spaced(vocabulary.space_prefix or single, single)


def _spaced(prefix: bool, single: bool = False) -> normalizers.Normalizer:
    """SentencePiece's sign for spaces; one before the text, and no others but `single` ones, if asked."""
    steps: list[normalizers.Normalizer] = []
    if single:
        steps += [normalizers.Replace(tokenizers.Regex(r"\A +| +\z"), "")]
        steps += [normalizers.Replace(tokenizers.Regex(" +"), " ")]
    steps += [normalizers.Prepend(SPACE)] if prefix else []
    return normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])


def _word_piece(keys: Keys, vocabulary: Vocabulary) -> _Way:
    """BERT's word pieces: the longest that fits, again and again."""
    unknown = _unknown(keys, "[UNK]", vocabulary.ids)
    lower = keys.flag("normalizer.lowercase", True)
    accents = keys.flag("normalizer.strip_accents", lower)
    plain, model = (
        models.WordPiece({token: number for number, token in enumerate(tokens)}, unk_token=tokens[unknown])
        for tokens in (_unreachable(vocabulary), vocabulary.tokens)
    )
    normal = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents)
    return plain, model, pre_tokenizers.BertPreTokenizer(), normal


def _scores(keys: Keys, vocabulary: Vocabulary) -> NDArray[np.float64]:
    longest, total = max(map(len, vocabulary.tokens), default=0), sum(map(len, vocabulary.tokens))
    if longest > _LONGEST_PIECE or total > _ALL_PIECES:
        got = f"{longest:,}, and {total:,} in all"
        raise keys.error("tokens", f"at most {_LONGEST_PIECE} characters, {_ALL_PIECES:,} in all", got)
    return keys.numbers("scores", len(vocabulary.tokens), float, math.isfinite, "a finite number")


def _check_merges(keys: Keys, merges: list[str], control: list[str]) -> None:
    """Two halves each; and none that makes a control token, as plain text could then spell one."""
    # All on the bytes at once: a call for each merge would take longer than the rest of the reading.
    text = np.frombuffer("\n".join([*merges, ""]).encode("utf-8", "surrogatepass"), np.uint8)
    marks = text[(text == ord(" ")) | (text == ord("\n"))]
    if marks.tobytes() != b" \n" * len(merges):
        number = next(n for n, merge in enumerate(merges) if merge.count(" ") != 1 or "\n" in merge)
        raise keys.error(f"merges[{number}]", "two tokens with a space between", repr(merges[number]))
    known = set(merges)
    if len(known) != len(merges):
        twice, count = Counter(merges).most_common(1)[0]
        raise keys.error("merges", "each merge once", f"{twice!r} {count} times")
    for token in control:
        made = [f"{token[:cut]} {token[cut:]}" for cut in range(1, len(token))]
        if len(token) == 1 or not known.isdisjoint(made):
            raise keys.error("merges", "control tokens that text can't make", repr(token))


_MODELS = {
    "gpt2": _Model(_byte_level, byte_level),
    "llama": _Model(
        _scored, sentence_piece, ("bos_token_id", "<s>"), ("eos_token_id", "</s>"),
        adds_bos=True, space_prefix=True,
    ),
    "t5": _Model(_unigram, sentence_piece, closing=("eos_token_id", "</s>"), adds_eos=True),
    "bert": _Model(
        _word_piece, word_piece, ("bos_token_id", "cls_token_id", "[CLS]"), ("seperator_token_id", "[SEP]"),
        adds_bos=True, adds_eos=True, adds_key="add_sep_token", space_prefix=True,
    ),
}  # fmt: skip
"""By the value of tokenizer.ggml.model. That key's spelling of "separator" is GGUF's own."""

"""The tokenizer that a GGUF file's metadata describes, checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from assay.llm.gguf_keys import Keys
from assay.llm.parsers import LibraryParser, Parser, finding, unreachable
from assay.llm.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from assay.llm.spelling import BYTE_TOKEN, IN_BYTES, SPACE, byte_level, word_piece
from assay.llm.vocabulary import BYTE, CONTROL, NORMAL, UNKNOWN, USER_DEFINED, Vocabulary

_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_END_TEXTS = ("<|endoftext|>", "<|im_end|>")
"""Control tokens that end an answer even where no key says so. A file has a key for one such token where the
model may have several: Qwen2's own configuration lists both of these. llama.cpp goes by these texts, too.
"""


@dataclass(frozen=True)
class _Model:
    """What a value of tokenizer.ggml.model stands for, and what holds where a file has no such key.

    `bos` and `closing`: keys in order of preference, then a token's text.
    """

    parser: Callable[[Keys, Vocabulary], Parser]
    spelling: Callable[[str], bytes]
    bos: tuple[str, ...]
    closing: tuple[str, ...]
    adds_bos: bool = False
    adds_eos: bool = False
    adds_key: str = "add_eos_token"
    space_prefix: bool = False


def read(metadata: Mapping[str, object]) -> tuple[Vocabulary, Parser]:
    """What the keys `tokenizer.ggml.*` say. Raises FormatError: the key, what came, what is supported."""
    keys = Keys(metadata)
    model = _MODELS[keys.choice("model", _MODELS)]
    vocabulary = _vocabulary(keys, model)
    return vocabulary, model.parser(keys, vocabulary)


def _vocabulary(keys: Keys, model: _Model) -> Vocabulary:
    tokens = keys.strings("tokens")
    count = len(tokens)
    kinds = [NORMAL] * count
    if "token_type" in keys:
        kinds = keys.integers("token_type", range(NORMAL, BYTE + 1), count)
    if model.spelling is word_piece:
        typed = zip(tokens, kinds, strict=True)
        tokens = [_continued(token) if kind == NORMAL else token for token, kind in typed]
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) != count:
        twice, times = Counter(tokens).most_common(1)[0]
        raise keys.error("tokens", "each token once", f"{twice!r} {times} times")
    if "" in ids:
        raise keys.error(f"tokens[{ids['']}]", "a token that isn't empty", "''")
    for token, kind in zip(tokens, kinds, strict=True):
        if kind == BYTE and not BYTE_TOKEN.fullmatch(token):
            raise keys.error(f"tokens[{ids[token]}]", "a byte, <0x00> to <0xFF>", repr(token))
    control, user_defined = (
        [token for token, kind in zip(tokens, kinds, strict=True) if kind in chosen]
        for chosen in ((UNKNOWN, CONTROL), (USER_DEFINED,))
    )
    bos_id = _named(keys, model.bos, ids)
    closing_id = _named(keys, model.closing, ids)
    adds_bos = keys.flag(
        "add_bos_token", model.adds_bos or (model.spelling is byte_level and _pre(keys).adds_bos)
    )
    adds_eos = keys.flag(model.adds_key, model.adds_eos)
    if adds_bos and bos_id is None:
        raise keys.error("bos_token_id", "a token id, as add_bos_token is true", "nothing")
    if adds_eos and closing_id is None:
        raise keys.error(model.closing[0], f"a token id, as {model.adds_key} is true", "nothing")
    ends = {keys.token_id(key, count) for key in _END_KEYS}
    ends |= {ids[text] for text in _END_TEXTS if text in control}
    eos_id = keys.token_id("eos_token_id", count)
    return Vocabulary(
        tokens=tokens, kinds=kinds, ids=ids, control=control, user_defined=user_defined,
        spelling=model.spelling, space_prefix=keys.flag("add_space_prefix", model.space_prefix),
        bos_id=bos_id, eos_id=eos_id, closing_id=closing_id,
        end_ids=frozenset(end for end in ends if end is not None), adds_bos=adds_bos, adds_eos=adds_eos,
    )  # fmt: skip


def _continued(token: str) -> str:
    """A word piece as BERT's own files spell it: GGUF marks what begins a word, those what continues one."""
    if token.startswith(SPACE):
        return token[1:]
    return token if token.startswith("[") and token.endswith("]") else "##" + token


def _named(keys: Keys, names: tuple[str, ...], ids: Mapping[str, int]) -> int | None:
    """The token of the first key that the file has, or the one of that text."""
    *found, text = names
    for key in found:
        if key in keys:
            return keys.token_id(key, len(ids))
    return ids.get(text)


def _pre(keys: Keys) -> PreTokenizer:
    return PRE_TOKENIZERS[keys.choice("pre", PRE_TOKENIZERS)]


def _byte_level(keys: Keys, vocabulary: Vocabulary) -> Parser:
    normal = [vocabulary.tokens[number] for number in vocabulary.of_kind(NORMAL)]
    if not IN_BYTES.fullmatch("".join(normal)):
        bad = next(token for token in normal if not IN_BYTES.fullmatch(token))
        at = f"tokens[{vocabulary.ids[bad]}]"
        raise keys.error(at, "characters of GPT-2's alphabet of bytes", repr(bad))
    merges = keys.strings("merges")
    _check_merges(keys, merges, vocabulary.control)
    halves = " ".join(merges).split(" ") if merges else []
    pairs = list(zip(halves[::2], halves[1::2], strict=True))
    pre = _pre(keys)
    cut = pre.build()
    try:
        both = plain = models.BPE(vocabulary.ids, pairs, ignore_merges=pre.ignore_merges)
        if pre.ignore_merges and any(len(cut.pre_tokenize_str(name)) == 1 for name in vocabulary.control):
            plain = models.BPE(unreachable(vocabulary.ids, vocabulary.control), pairs, ignore_merges=True)
    except Exception as error:  # the library raises nothing narrower
        raise keys.error("merges", "pairs of tokens that are a token when joined", str(error)) from error
    return _library(vocabulary, plain, both, cut, None)


def _word_piece(keys: Keys, vocabulary: Vocabulary) -> Parser:
    unknown = _named(keys, ("unknown_token_id", "[UNK]"), vocabulary.ids)
    if unknown is None:
        raise keys.error("unknown_token_id", "the token of words that can't be spelled", "nothing")
    lower = keys.flag("normalizer.lowercase", True)
    accents = keys.flag("normalizer.strip_accents", lower)
    plain, both = (
        models.WordPiece(ids, unk_token=next(token for token, number in ids.items() if number == unknown))
        for ids in (unreachable(vocabulary.ids, vocabulary.control), vocabulary.ids)
    )
    normal = normalizers.BertNormalizer(lowercase=lower, strip_accents=accents)
    return _library(vocabulary, plain, both, pre_tokenizers.BertPreTokenizer(), normal)


def _library(
    vocabulary: Vocabulary,
    plain: models.Model,
    both: models.Model,
    cut: pre_tokenizers.PreTokenizer,
    normal: normalizers.Normalizer | None,
) -> Parser:
    """The library's parsers over one model each; `both` knows the control tokens, too."""
    made = [tokenizers.Tokenizer(model) for model in (plain, both)]
    for tokenizer in made:
        tokenizer.pre_tokenizer = cut
        if normal is not None:
            tokenizer.normalizer = normal
    named = vocabulary.user_defined
    return LibraryParser(finding(made[0], named), finding(made[1], named + vocabulary.control))


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
    "gpt2": _Model(_byte_level, byte_level, ("bos_token_id", ""), ("eos_token_id", "")),
    "bert": _Model(
        _word_piece, word_piece, ("bos_token_id", "cls_token_id", "[CLS]"), ("seperator_token_id", "[SEP]"),
        adds_bos=True, adds_eos=True, adds_key="add_sep_token", space_prefix=True,
    ),
}  # fmt: skip
"""By the value of tokenizer.ggml.model. That key's spelling of "separator" is GGUF's own."""

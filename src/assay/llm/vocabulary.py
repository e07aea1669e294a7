"""The tokens, merges and special ids of a byte-level BPE, read from GGUF metadata and checked."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.llm.pretokenizers import PRE_TOKENIZERS

_KEY = "tokenizer.ggml."
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
_END_TEXTS = ("<|endoftext|>", "<|im_end|>")
"""Control tokens that end an answer even where no key says so. A file has a key for one such token where the
model may have several: Qwen2's own configuration lists both of these. llama.cpp goes by these texts, too.
"""

# What a token is, by the numbers that GGUF gives it. NORMAL ones are spelled in the alphabet of bytes; the
# others (unknown, control, user-defined, unused) are their own text.
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
_KINDS = frozenset(range(1, 6))


def _byte_alphabet() -> dict[int, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: byte for byte in printable} | {256 + n: byte for n, byte in enumerate(others)}


BYTES = _byte_alphabet()
"""GPT-2's alphabet, character to byte: printable Latin-1 stands for itself, the rest counts up from 256."""

_SPELLED = re.compile(f"[{re.escape(''.join(map(chr, BYTES)))}]*")


@dataclass(frozen=True)
class Vocabulary:
    """`tokens[id]` and `kinds[id]`; merges in order of rank; `pre` is a name of PRE_TOKENIZERS.

    `bos_id` begins a text and `eos_id` ends one, each None where the file names none; a model that draws any
    of `end_ids`, `eos_id` among them, has ended its answer.
    `control` and `user_defined` are the tokens that may be found in a text before it is cut into words.
    """

    tokens: list[str]
    kinds: list[int]
    ids: dict[str, int]
    control: list[str]
    user_defined: list[str]
    merges: list[tuple[str, str]]
    pre: str
    bos_id: int | None
    eos_id: int | None
    end_ids: frozenset[int]
    adds_bos: bool

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object]) -> Self:
        """Read the keys `tokenizer.ggml.*`. Raises FormatError: the key, what came, what is supported."""
        _choice(metadata, "model", ("gpt2",))
        pre = _choice(metadata, "pre", tuple(PRE_TOKENIZERS))
        tokens = _strings(metadata, "tokens")
        kinds = _kinds(metadata, len(tokens))
        ids = {token: number for number, token in enumerate(tokens)}
        normal, control, user_defined = (
            [tokens[number] for number in np.flatnonzero(kinds == kind).tolist()]
            for kind in (NORMAL, CONTROL, USER_DEFINED)
        )
        _check_tokens(tokens, normal, ids)
        merges = _strings(metadata, "merges")
        _check_merges(merges, control)
        halves = " ".join(merges).split(" ") if merges else []
        if _flag(metadata, "add_eos_token"):
            raise _error("add_eos_token", "false", "true")
        bos_id = _token_id(metadata, "bos_token_id", len(tokens))
        adds_bos = _flag(metadata, "add_bos_token")
        if adds_bos and bos_id is None:
            raise _error("bos_token_id", "a token id, as add_bos_token is true", "nothing")
        ends = {_token_id(metadata, key, len(tokens)) for key in _END_KEYS}
        ends |= {ids[text] for text in _END_TEXTS if text in control}
        return cls(
            tokens=tokens,
            kinds=kinds.tolist(),
            ids=ids,
            control=control,
            user_defined=user_defined,
            merges=list(zip(halves[::2], halves[1::2], strict=True)),
            pre=pre,
            bos_id=bos_id,
            eos_id=_token_id(metadata, "eos_token_id", len(tokens)),
            end_ids=frozenset(end for end in ends if end is not None),
            adds_bos=adds_bos,
        )


def _check_tokens(tokens: list[str], normal: list[str], ids: dict[str, int]) -> None:
    if len(ids) != len(tokens):
        twice, count = Counter(tokens).most_common(1)[0]
        raise _error("tokens", "each token once", f"{twice!r} {count} times")
    if "" in ids:
        raise _error(f"tokens[{ids['']}]", "a token that isn't empty", "''")
    if not _SPELLED.fullmatch("".join(normal)):
        bad = next(token for token in normal if not _SPELLED.fullmatch(token))
        raise _error(f"tokens[{ids[bad]}]", "characters of GPT-2's alphabet of bytes", repr(bad))


def _check_merges(merges: list[str], control: list[str]) -> None:
    """Two halves each; and none that makes a control token, as plain text could then spell one."""
    # All on the bytes at once: a call for each merge would take longer than the rest of the reading.
    text = np.frombuffer("\n".join([*merges, ""]).encode("utf-8", "surrogatepass"), np.uint8)
    marks = text[(text == ord(" ")) | (text == ord("\n"))]
    if marks.tobytes() != b" \n" * len(merges):
        number = next(n for n, merge in enumerate(merges) if merge.count(" ") != 1 or "\n" in merge)
        raise _error(f"merges[{number}]", "two tokens with a space between", repr(merges[number]))
    known = set(merges)
    if len(known) != len(merges):
        twice, count = Counter(merges).most_common(1)[0]
        raise _error("merges", "each merge once", f"{twice!r} {count} times")
    for token in control:
        made = [f"{token[:cut]} {token[cut:]}" for cut in range(1, len(token))]
        if len(token) == 1 or not known.isdisjoint(made):
            raise _error("merges", "control tokens that text can't make", repr(token))


def _value(metadata: Mapping[str, object], key: str) -> object:
    return metadata.get(_KEY + key)


def _error(key: str, want: str, got: str) -> FormatError:
    return FormatError("a tokenizer that can't be used", place=_KEY + key, want=want, got=got)


def _shown(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r}"[:200]


def _choice(metadata: Mapping[str, object], key: str, supported: tuple[str, ...]) -> str:
    value = _value(metadata, key)
    if not isinstance(value, str) or value not in supported:
        raise _error(key, " | ".join(supported), _shown(value))
    return value


def _flag(metadata: Mapping[str, object], key: str) -> bool:
    value = _value(metadata, key)
    if value is not None and not isinstance(value, bool | np.bool_):
        raise _error(key, "a bool", _shown(value))
    return bool(value)


def _items(metadata: Mapping[str, object], key: str) -> list[object]:
    value = _value(metadata, key)
    if isinstance(value, np.ndarray) and value.ndim == 1:
        return list(value.tolist())
    if not isinstance(value, list | tuple):
        raise _error(key, "an array", _shown(value))
    return list(value)


def _strings(metadata: Mapping[str, object], key: str) -> list[str]:
    items = _items(metadata, key)
    if set(map(type, items)) - {str}:
        number = next(n for n, item in enumerate(items) if type(item) is not str)
        raise _error(f"{key}[{number}]", "a string", _shown(items[number]))
    return cast(list[str], items)


def _kinds(metadata: Mapping[str, object], count: int) -> NDArray[np.int64]:
    """One number per token; a file without them has normal tokens only."""
    if _value(metadata, "token_type") is None:
        return np.full(count, NORMAL)
    items = _items(metadata, "token_type")
    if len(items) != count:
        raise _error("token_type", f"{count:,} numbers, one per token", f"{len(items):,}")
    if set(map(type, items)) - {int} or not _KINDS.issuperset(cast(list[int], items)):
        number = next(n for n, item in enumerate(items) if type(item) is not int or item not in _KINDS)
        raise _error(f"token_type[{number}]", "1 to 5", _shown(items[number]))
    return np.array(items, np.int64)


def _token_id(metadata: Mapping[str, object], key: str, count: int) -> int | None:
    value = _value(metadata, key)
    if value is None:
        return None
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 <= value < count:
        raise _error(key, f"a token id, 0 to {count - 1}", _shown(value))
    return operator.index(value)

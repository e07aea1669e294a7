"""Bodies of requests: JSON to declared types, or a refusal that names the field."""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from assay.errors import RequestError, near
from assay.gateway.errors import Refusal
from assay.llm.request import Sampling

T = TypeVar("T", bound=Struct)
Unit = Annotated[float, Meta(ge=0, le=1)]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`")


class Body(Struct, forbid_unknown_fields=True, kw_only=True):
    """An object of a request."""


class SamplingBody(Body, kw_only=True):
    """What all requests for text may say of how tokens are chosen. `priority`, `timeout` (seconds), `top_k`,
    `min_p`, `typical_p`, `repetition_penalty`, `min_tokens`, `ignore_eos`, `regex` and `grammar` (Lark's) go
    beyond OpenAI's protocol.
    """

    model: Name
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = 1.0
    top_p: Annotated[float, Meta(gt=0, le=1)] | None = 1.0
    n: Annotated[int, Meta(ge=1, le=64)] | None = 1
    stop: str | Annotated[list[str], Meta(max_length=16)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = 0.0
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = 0.0
    logit_bias: dict[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    stream: bool | None = False
    user: Annotated[str, Meta(max_length=512)] | None = None
    top_k: Annotated[int, Meta(ge=0)] = 0
    min_p: Unit = 0.0
    typical_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    repetition_penalty: Annotated[float, Meta(gt=0, le=100)] = 1.0
    min_tokens: Annotated[int, Meta(ge=0)] = 0
    ignore_eos: bool = False
    regex: str | None = None
    grammar: str | None = None
    adapter: str | None = None
    priority: Annotated[int, Meta(ge=-100, le=100)] = 0
    timeout: Annotated[float, Meta(gt=0, le=86400)] | None = None


PLAIN = (
    "temperature", "top_p", "n", "presence_penalty", "frequency_penalty", "top_k", "min_p", "typical_p",
    "repetition_penalty", "min_tokens", "ignore_eos", "regex", "grammar", "adapter",
)  # fmt: skip
"""Fields that mean what those of `Sampling` do."""


class StreamOptions(Body):
    """`include_usage`: a last event tells the counts of tokens. `include_progress`: events tell how much of
    the prompt is computed.
    """

    include_usage: bool = False
    include_progress: bool = False
    include_obfuscation: Literal[False] = False


def decoded(data: bytes, type: type[T], depth: int) -> T:
    """A body of that type. Raises Refusal."""
    _shallow(data, depth)
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError as error:
        raise refused(str(error), type) from None
    except msgspec.DecodeError as error:
        raise Refusal(400, f"the body isn't JSON: {error}", code="invalid_json") from None
    except (UnicodeDecodeError, RecursionError):
        raise Refusal(400, "the body isn't JSON in UTF-8", code="invalid_json") from None


def refused(text: str, type: type[Struct]) -> Refusal:
    """The refusal of a body that isn't of its type, by what msgspec says of it."""
    found = _PLACE.search(text)
    place, text = (found[1], text[: found.start()]) if found else ("", text)
    unknown = _UNKNOWN.match(text)
    if unknown:
        known = [] if place else [field.encode_name for field in msgspec.structs.fields(type)]
        text = f"an unknown field{near(unknown[1], known, before=': ')}"
        place = f"{place}.{unknown[1]}".lstrip(".")
    missing = re.search(r"missing required field `(.*?)`", text)
    if missing:
        place = f"{place}.{missing[1]}".lstrip(".")
    return Refusal(400, f"{place}: {text}" if place else text, param=place or None)


def sampling(body: SamplingBody, names: dict[str, str], **more: object) -> Sampling:
    """How tokens are chosen. `names` are what the protocol calls fields of `Sampling`, where it is another
    name. Raises Refusal that names the protocol's.
    """
    given = {name: value for name in PLAIN if (value := getattr(body, name)) is not None}
    if body.stop:
        given["stop"] = body.stop
    if body.seed is not None:
        given["seed"] = body.seed % 2**63
    if body.logit_bias:
        given["logit_bias"] = {_token(key): value for key, value in body.logit_bias.items()}
    try:
        return Sampling(**(given | {k: v for k, v in more.items() if v is not None}))
    except RequestError as error:
        first = re.match(r"\w+", error.place)
        if first and first[0] in names:
            error.place = names[first[0]] + error.place[first.end() :]
        raise Refusal.of(error) from None


def _token(key: str) -> int:
    if not (key.isascii() and key.isdigit() and len(key) < 10):
        raise Refusal(
            400, f"logit_bias: a token's id is a whole number, not {key[:40]!r}", param="logit_bias"
        )
    return int(key)


def _shallow(data: bytes, most: int) -> None:
    """Raise Refusal for JSON that is nested too deeply, before anything is made of it."""
    depth, inside, escaped = 0, False, False
    if data.count(b"[") + data.count(b"{") <= most:
        return
    for byte in data:
        if inside:
            escaped, inside = (byte == 92 and not escaped), inside and (escaped or byte != 34)
        elif byte == 34:
            inside = True
        elif byte in b"[{":
            depth += 1
            if depth > most:
                raise Refusal(400, f"the body is nested more than {most} deep", code="too_deep")
        elif byte in b"]}":
            depth -= 1

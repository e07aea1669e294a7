"""What other routes are asked: completions, embeddings, tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from assay.gateway.errors import Refusal
from assay.gateway.schema.body import Body, Name, SamplingBody, StreamOptions

Token = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Tokens = Annotated[list[Token], Meta(min_length=1)]
Several = Annotated[list[str | Token | Tokens], Meta(min_length=1, max_length=65536)]
"""Texts, tokens, or lists of tokens: all of one kind, see `inputs`."""


class CompletionRequest(SamplingBody, kw_only=True):
    """`/v1/completions`: texts, or tokens, that are to be continued."""

    prompt: str | Several
    max_tokens: Annotated[int, Meta(ge=1)] | None = 16
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    stream_options: StreamOptions | None = None
    echo: Literal[False] | None = False
    best_of: Literal[1] | None = 1
    suffix: None = None


class EmbeddingRequest(Body):
    """`/v1/embeddings`: texts, or tokens."""

    input: str | Several
    model: Name
    encoding_format: Literal["float", "base64"] | None = "float"
    dimensions: None = None
    user: Annotated[str, Meta(max_length=512)] | None = None


class TokenizeRequest(Body):
    """`/tokenize`: a text as a prompt."""

    model: Name
    prompt: str
    add_special_tokens: bool = True


class DetokenizeRequest(Body):
    """`/detokenize`: tokens."""

    model: Name
    tokens: Annotated[list[Token], Meta(max_length=1 << 20)]


def inputs(given: str | list[str | int | list[int]], place: str, most: int) -> list[str | list[int]]:
    """Each text, or list of tokens, of a field that takes one or several. Raises Refusal."""
    if isinstance(given, str):
        return [given]
    found = list[str | list[int]]()
    tokens = [each for each in given if isinstance(each, int)]
    if tokens:
        found.append(tokens)
    else:
        found += [each for each in given if not isinstance(each, int)]
    kinds = {type(each) for each in given}
    if len(kinds) > 1:
        raise Refusal(400, f"{place}: texts, tokens and lists of tokens can't be mixed", param=place)
    if len(found) > most:
        raise Refusal(400, f"{place}: wanted at most {most}; got {len(found)}", param=place)
    return found

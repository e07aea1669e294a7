"""What routes answer with."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TokensDetails(Struct):
    """Of the prompt's tokens, those that were in the cache."""

    cached_tokens: int = 0


class Usage(Struct):
    """Tokens of the prompt and of the answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: TokensDetails


class TopLogprob(Struct):
    """A token that might have come, and the natural logarithm of its probability."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(Struct):
    """A token that came, and the likeliest ones in its place."""

    token: str
    logprob: float
    bytes: list[int]
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Struct):
    """Of each token."""

    content: list[TokenLogprob]
    refusal: None = None


class CalledFunction(Struct):
    """What is to be called, and the arguments as JSON."""

    name: str
    arguments: str


class AnsweredCall(Struct):
    """A call."""

    id: str
    function: CalledFunction
    type: Literal["function"] = "function"


class AnsweredMessage(Struct):
    """What the model said, or called."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    tool_calls: list[AnsweredCall] | None = None
    refusal: None = None


class ChatChoice(Struct):
    """One answer."""

    index: int
    message: AnsweredMessage
    finish_reason: str
    logprobs: ChatLogprobs | None = None


class ChatCompletion(Struct):
    """The answers to a conversation."""

    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    system_fingerprint: str
    object: Literal["chat.completion"] = "chat.completion"


class TextLogprobs(Struct):
    """Of each token: its text, its log-probability, the likeliest in its place, and where it begins."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class TextChoice(Struct):
    """One answer."""

    index: int
    text: str
    finish_reason: str
    logprobs: TextLogprobs | None = None


class Completion(Struct):
    """The answers to prompts."""

    id: str
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage
    system_fingerprint: str
    object: Literal["text_completion"] = "text_completion"


class ModelCard(Struct):
    """A model that is served."""

    id: str
    created: int
    max_model_len: int | None = None
    object: Literal["model"] = "model"
    owned_by: Literal["assay"] = "assay"


class ModelList(Struct):
    """All of them."""

    data: list[ModelCard]
    object: Literal["list"] = "list"


class EmbeddingUsage(Struct):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class Embedding(Struct):
    """A vector: numbers, or little-endian float32 in base64."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class Embeddings(Struct):
    """The vectors of texts."""

    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    object: Literal["list"] = "list"


class Tokenized(Struct):
    """A text's tokens."""

    tokens: list[int]
    count: int
    max_model_len: int | None


class Detokenized(Struct):
    """The text of tokens."""

    prompt: str

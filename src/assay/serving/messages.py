"""What the processes of a service say to each other: every message, its fields and their types.

gateway → engine      Submit · Attach · Leave · Cancel · Embed
engine → gateway      Started · Pieces · Known · Vectors · Failed · Beat
gateway → tokeniser   Encode · Render · Decode · Grammar
tokeniser → gateway   Tokens · Text · Failed · Beat
both ways             Hello, the first message of a connection, and Ping and Pong
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from assay.llm.request import Sampling

VERSION = 1
"""Of this file's meaning. Processes of another version are refused at the first message."""
Alternative = tuple[bytes, int, float]
"""A token's bytes, its id and the natural logarithm of its probability."""


class Message(Struct, tag=True, omit_defaults=True, forbid_unknown_fields=True):
    """One frame."""


class Hello(Message):
    """Who speaks: `role` is "engine", "tokenizer", "gateway" or "supervisor"; `about` is what others want to
    know, such as the digest of its model's files.
    """

    version: int
    role: str
    name: str
    pid: int
    about: Mapping[str, str | int | float | bool] = field(default_factory=dict)


class Ping(Message):
    """Asks for a Pong with this number."""

    number: int


class Pong(Message):
    """The answer to a Ping."""

    number: int


class Submit(Message):
    """A request, or one that goes on: an engine that knows the `id` sends what comes after `drawn`; another
    one computes on from there, to the same bits.

    `drawn` are the tokens of each of `sampling.n` answers that whoever asks has already. `sampling.seed` is
    never None: what a request becomes is in the request. `key` is what whoever asks calls the answers, by
    default the id. Lower `priority` goes first. `timeout` seconds after it arrived it fails with
    DeadlineExceeded. `background`: it goes on when nobody listens. `progress`: Progress messages are wanted.
    `logprobs`: pieces tell their tokens' log-probabilities. `meta` is the gateway's own, kept and given back
    by Known.
    """

    id: str
    prompt: list[int]
    sampling: Sampling
    priority: int = 0
    timeout: float | None = None
    background: bool = False
    progress: bool = False
    logprobs: bool = False
    drawn: list[list[int]] = []
    meta: bytes = b""
    key: str = ""


class Attach(Message):
    """Send what comes after the first `at` tokens of each answer of a request that the journal knows: first
    Known, then pieces; without `follow` only those that are there, and then Started. No piece goes beyond
    `mark` tokens of its answer that doesn't begin there.
    """

    id: str
    at: list[int]
    follow: bool = True
    mark: list[int] = []
    key: str = ""


class Leave(Message):
    """Whoever asked under this `key` is gone: where nobody else listens, stop, and keep what is known, unless
    it is a background request.
    """

    id: str
    key: str = ""


class Cancel(Message):
    """Stop for good: answers end with the reason "cancelled"."""

    id: str


class Embed(Message):
    """The vectors of texts, as tokens."""

    id: str
    texts: list[list[int]]
    pooling: str | None = None
    key: str = ""


class Started(Message):
    """A request is admitted, and journalled where there is a journal. `cached` of its prompt's tokens are in
    the cache.
    """

    id: str


class Progress(Message):
    """So many of the prompt's tokens are computed."""

    id: str
    done: int
    total: int


class Piece(Struct, omit_defaults=True, array_like=True):
    """What a step added to one answer: after it, `at` tokens of answer `choice` are told.

    `id` is the key under which it was asked for. `tokens` are those since the last piece and `text` what they
    completed, which may be empty: half a character, or what a stop string may begin with, is held back.
    `reason` is "stop", "length", "cancelled", or "" while it goes on. `logprobs`, where asked for: for each
    token its own, then the likeliest in its place.
    """

    id: str
    choice: int
    at: int
    tokens: list[int]
    text: str
    reason: str = ""
    cached: int = 0
    logprobs: list[list[Alternative]] = []


class Pieces(Message):
    """What a step added to all answers that this connection hears of."""

    items: list[Piece]


class Known(Message):
    """A request as it was submitted, and when, in seconds since 1970. `id` is the key of the question."""

    id: str
    request: Submit
    created: float
    done: bool


class Vectors(Message):
    """float32, little-endian, [texts, hidden], and the tokens that were read."""

    id: str
    values: bytes
    width: int
    tokens: int


class Failed(Message):
    """A request that can't be served. `kind` is an error class's name, or "full" (with `retry`, the seconds
    after which to ask again), "unknown" or "draining".
    """

    id: str
    kind: str
    rule: str
    place: str = ""
    want: str = ""
    got: str = ""
    hint: str = ""
    retry: float = 0.0


class Beat(Message):
    """A worker's sign of life, at most a second after the last one, between steps: `steps` since it began, of
    `waiting` and `running` requests. `ready`: it takes requests.
    """

    steps: int
    waiting: int
    running: int
    pages_free: int = 0
    pages: int = 0
    ready: bool = True
    journal: str = ""
    """Why it serves on without a journal; empty where nothing is wrong."""


class Encode(Message):
    """The tokens of a text, at most `most`; with `special`, names of control tokens are those, with `ends` it
    has the tokens that the model wants at a prompt's ends.
    """

    id: str
    model: str
    text: str
    special: bool = False
    most: int | None = None
    ends: bool = True


class Render(Message):
    """The tokens of a conversation: JSON of messages as chat templates know them, and of tools, or empty."""

    id: str
    model: str
    messages: bytes
    tools: bytes = b""
    most: int | None = None


class Decode(Message):
    """The text of tokens."""

    id: str
    model: str
    tokens: list[int]


class Grammar(Message):
    """Whether answers can be held to this: `kind` is "json_schema", "regex" or "grammar"."""

    id: str
    model: str
    kind: str
    text: str


class Tokens(Message):
    """The answer to Encode and Render."""

    id: str
    tokens: list[int]


class Text(Message):
    """The answer to Decode, and to Grammar, empty."""

    id: str
    text: str


ToEngine = Hello | Ping | Submit | Attach | Leave | Cancel | Embed
FromEngine = Hello | Pong | Started | Progress | Pieces | Known | Vectors | Failed | Beat
Question = Encode | Render | Decode | Grammar
ToTokenizer = Hello | Ping | Question
FromTokenizer = Hello | Pong | Tokens | Text | Failed | Beat

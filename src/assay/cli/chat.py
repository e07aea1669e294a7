"""Talk with a model in the terminal.

Lines can be edited and called back with the arrow keys. /help lists orders, such as /reset, which
forgets the conversation. Ctrl-C stops the answer and keeps the conversation, Ctrl-D or /exit leaves.
Nothing is written to disk.

    assay chat smollm2
    assay chat smollm2 --system "You answer in one sentence." --temperature 0.7
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from assay.cli import interrupt, options
from assay.cli.command import Argument, Values
from assay.cli.model import load_model
from assay.errors import RequestError, near

if TYPE_CHECKING:
    from assay.llm.answer import Completion
    from assay.llm.language_model import LanguageModel
    from assay.llm.request import SamplingFields
    from assay.llm.template import Message

ARGUMENTS = (
    *options.ANSWERING,
    Argument(*options.MAX_TOKENS, default=1024),
    Argument("--system", "what the model is told before the conversation", "TEXT"),
)
ORDERS = {"/help": "show this", "/reset": "forget the conversation", "/exit": "leave (as Ctrl-D does)"}


def run(arguments: Values) -> None:
    sampling = options.sampling(arguments)
    lm = load_model(arguments)
    if sys.stdin.isatty():
        # input() gets line editing and history by this import, where Python was built with it.
        with suppress(ImportError):
            import readline  # noqa: F401

        print("/help explains, Ctrl-C stops an answer, Ctrl-D leaves.", file=sys.stderr)
    first: list[Message] = [{"role": "system", "content": arguments.system}] if arguments.system else []
    with interrupt.raises():
        _converse(lm, first, sampling)


def _converse(lm: LanguageModel, first: list[Message], sampling: SamplingFields) -> None:
    """Answer what the user types, to the end of the input; it begins with the messages `first`."""
    messages = list(first)
    for line in _lines():
        word = line.split()[0]
        if word == "/exit":
            break
        if word == "/reset":
            messages = list(first)
            print("The conversation is forgotten.", file=sys.stderr)
        elif word == "/help":
            print("\n".join(f"{order:<7} {meaning}" for order, meaning in ORDERS.items()))
        elif word.startswith("/"):
            print(f"no such order: {word}{near(word, ORDERS, '; ')}; /help lists them", file=sys.stderr)
        else:
            messages = _turn(lm, [*messages, {"role": "user", "content": line}], sampling)


def _lines() -> Iterator[str]:
    """What the user types, without empty lines, to the end of the input."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt).strip()
        except KeyboardInterrupt:
            print()
            continue
        except EOFError:
            if prompt:
                print()
            return
        if line:
            yield line


def _turn(lm: LanguageModel, messages: list[Message], sampling: SamplingFields) -> list[Message]:
    """Answer the last message; the conversation with the answer. One that is refused is left out."""
    try:
        stream = lm.stream(messages, **sampling)
    except RequestError as error:
        if len(messages) == 1:
            raise
        print(f"assay: {error}\n  /reset forgets the conversation", file=sys.stderr)
        return messages[:-1]
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        # A KeyboardInterrupt could come amid the engine's books. A second Ctrl-C doesn't wait for the token.
        if stopped:
            raise KeyboardInterrupt
        stopped.append(number)

    with interrupt.calls(stop):
        for text in stream:
            print(text, end="", flush=True)
            if stopped:
                break
        stream.close()
    answer = stream.completion
    print()
    drawn = "seed" not in sampling and sampling.get("temperature", 0) != 0
    print(_summary(answer, drawn), file=sys.stderr, flush=True)
    return [*messages, {"role": "assistant", "content": answer.text}]


def _summary(answer: Completion, drawn: bool) -> str:
    """Speed, how it ended where that isn't plain, and the seed where it was `drawn` and matters."""
    count = len(answer.tokens)
    speed = answer.timings.tokens_per_second(count)
    text = f"[{count} tokens, {speed:.1f} tokens/s, first after {answer.timings.first_token:.2f} s"
    text += {"length": ", cut off", "cancelled": ", stopped"}.get(answer.finish_reason, "")
    return text + (f", seed {answer.seed}]" if drawn else "]")

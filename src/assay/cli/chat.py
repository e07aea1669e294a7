"""`assay chat`: a conversation in the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from assay.cli import interrupt, options
from assay.cli.command import GOOD, Command, Parser, near
from assay.cli.model import load_model
from assay.errors import RequestError

if TYPE_CHECKING:
    from assay.llm.answer import Completion
    from assay.llm.language_model import LanguageModel
    from assay.llm.request import SamplingFields

Message = dict[str, str]

MAX_TOKENS = 1024
ORDERS = {"/help": "show this", "/reset": "forget the conversation", "/exit": "leave (as Ctrl-D does)"}


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    options.add_guesses(parser)
    options.add_sampling(parser, MAX_TOKENS)
    parser.add_argument("--system", metavar="TEXT", help="what the model is told before the conversation")


def _run(arguments: argparse.Namespace) -> int:
    sampling = options.sampling(arguments)
    lm = load_model(arguments, guesses=arguments.guesses, draft=arguments.draft)
    if sys.stdin.isatty():
        # input() gets line editing and history by this import, where Python was built with it.
        with suppress(ImportError):
            import readline  # noqa: F401

        print("/help explains, Ctrl-C stops an answer, Ctrl-D leaves.", file=sys.stderr)
    first: list[Message] = [{"role": "system", "content": arguments.system}] if arguments.system else []
    with interrupt.raises():
        _converse(lm, first, sampling)
    return GOOD


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
            print(f"no such order: {word}{near(word, ORDERS)}; /help lists them", file=sys.stderr)
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

    with interrupt.Calls(stop):
        for text in stream:
            sys.stdout.write(text)
            sys.stdout.flush()
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


COMMAND = Command(
    "chat",
    "Talk with a model in the terminal.",
    (
        "assay chat smollm2",
        'assay chat smollm2 --system "You answer in one sentence." --temperature 0.7',
    ),
    _declare,
    _run,
    "Lines can be edited and called back with the arrow keys. "
    + ", ".join(f"{order}: {meaning}" for order, meaning in ORDERS.items())
    + ".\nCtrl-C stops the answer and keeps the conversation, Ctrl-D leaves. Nothing is written to disk.",
)

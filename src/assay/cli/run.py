"""`assay run`: one prompt, one answer."""

from __future__ import annotations

import argparse
import json
import sys

from assay.cli import options, streams
from assay.cli.command import GOOD, Command, Parser
from assay.cli.model import load_model
from assay.errors import RequestError

MAX_TOKENS = 512


def _declare(parser: Parser) -> None:
    options.add_model(parser)
    options.add_guesses(parser)
    parser.add_argument("prompt", metavar="PROMPT", help="what to say to the model; - reads standard input")
    options.add_sampling(parser, MAX_TOKENS)
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without the chat template"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the whole answer with its tokens, timings and seed"
    )


def _run(arguments: argparse.Namespace) -> int:
    sampling = options.sampling(arguments)
    prompt = _prompt(arguments.prompt)
    lm = load_model(arguments, guesses=arguments.guesses, draft=arguments.draft)
    if lm.template is None and not arguments.raw:
        raise RequestError(
            "this model has no chat template",
            place=arguments.model,
            hint="--raw continues the prompt as it is",
        )
    stream = lm.stream(prompt if arguments.raw else [{"role": "user", "content": prompt}], **sampling)
    if arguments.seed is None and sampling.get("temperature", 0) > 0 and not arguments.json:
        # Before the answer: one that is interrupted can be had again too.
        streams.complain(f"seed {stream.completion.seed}")
    last = ""
    for text in stream:
        if not arguments.json:
            sys.stdout.write(text)
            sys.stdout.flush()
        last = text
    answer = stream.completion
    if arguments.json:
        fields = {
            "model": arguments.model,
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "usage": vars(answer.usage),
            "timings": {
                **vars(answer.timings),
                "tokens_per_second": answer.timings.tokens_per_second(len(answer.tokens)),
            },
            "seed": answer.seed,
            "tokens": answer.tokens,
            "logprobs": answer.logprobs,
        }
        print(json.dumps(fields, ensure_ascii=False))
    elif not last.endswith("\n"):
        print()
    if answer.finish_reason == "length" and sys.stderr.isatty():
        print(f"assay: cut off after {len(answer.tokens)} tokens; see --max-tokens", file=sys.stderr)
    return GOOD


def _prompt(text: str) -> str:
    """The prompt: this text, or standard input's. Raises RequestError for what is no text, or none."""
    try:
        if text == "-":
            if sys.stdin.isatty():
                streams.complain("assay: type the prompt; Ctrl-D on a line of its own ends it")
            text = sys.stdin.buffer.read().decode()
        text.encode()
    except UnicodeError as error:
        rule, want = "the prompt is not text", "valid UTF-8"
        raise RequestError(rule, place="PROMPT", want=want, got=str(error)) from None
    if not text.strip():
        rule, want = "the prompt is empty", "something to answer"
        raise RequestError(rule, place="PROMPT", want=want, got=repr(text[:40]))
    return text


COMMAND = Command(
    "run",
    "Answer one prompt; the answer is printed while it is made.",
    (
        'assay run smollm2 "Why is the sky blue?"',
        'assay run smollm2 "Write a story about a fox." --temperature 0.8 --seed 7 --max-tokens 200',
        'assay run ./model.gguf "Once upon a time" --raw --stop "The End"',
        "cat notes.txt | assay run smollm2 - --json",
    ),
    _declare,
    _run,
    "The same prompt, options and seed give the same answer, whatever the threads and the processor.\n"
    "A seed that is drawn is told on standard error, or in the JSON.",
)

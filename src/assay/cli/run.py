"""Answer one prompt; the answer is printed while it is made.

The same prompt, options and seed give the same answer, whatever the threads and the processor.
A seed that is drawn is told on standard error, or in the JSON, which has tokens, their
log-probabilities and timings too. Several answers are printed when all are made.

    assay run smollm2 "Why is the sky blue?"
    assay run smollm2 "Write a story about a fox." --temperature 0.8 --seed 7 --max-tokens 200
    assay run smollm2 "Name a colour." --temperature 1 --n 3
    assay run ./model.gguf "Once upon a time" --raw --stop "The End"
    cat notes.txt | assay run smollm2 - --json --top-logprobs 5
"""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from assay.cli import options, streams
from assay.cli.command import Argument, Report, Values
from assay.cli.model import load_model
from assay.errors import RequestError, within

if TYPE_CHECKING:
    from assay.llm.answer import Completion
    from assay.llm.language_model import Stream
    from assay.llm.tokenizer import Tokenizer

ARGUMENTS = (
    *options.ANSWERING,
    Argument("prompt", "what to say to the model; - reads standard input"),
    Argument(*options.MAX_TOKENS, default=512),
    Argument("--n", "how many answers, up to 64", "N", options.whole(1), 1),
    Argument("--top-logprobs", "in JSON: N likeliest in each one's place, up to 20", "N", options.whole(0)),
    Argument("--raw", "continue the prompt as it is, without the chat template"),
    Argument("--json", "print the whole answer with its tokens, log-probabilities, timings and seed"),
)


def run(arguments: Values) -> Report | None:
    sampling = options.sampling(arguments)
    if arguments.top_logprobs and not arguments.json:
        raise RequestError("only the JSON has them", place="--top-logprobs", want="--json")
    prompt = _prompt(arguments.prompt)
    lm = load_model(arguments)
    if lm.template is None and not arguments.raw:
        rule, hint = "this model has no chat template", "--raw continues the prompt as it is"
        raise RequestError(rule, place=arguments.model, hint=hint)
    messages = [{"role": "user", "content": prompt}]
    drawn = "seed" not in sampling and sampling.get("temperature", 0) > 0
    if not arguments.json and arguments.n == 1:
        _print(lm.stream(prompt if arguments.raw else messages, **sampling), drawn)
        return None
    answer = lm.generate(prompt, **sampling) if arguments.raw else lm.chat(messages, **sampling)
    if drawn and not arguments.json:
        streams.complain(f"seed {answer.seed}")
    of = f"of {arguments.n} ---"
    texts = (f"--- answer {index} {of}\n{each.text}" for index, each in enumerate(answer.choices, 1))
    return Report({"model": arguments.model, **_fields(answer, lm.tokenizer)}, texts)


def _print(stream: Stream, drawn: bool) -> None:
    """Print an answer while it is made, and first its seed where that was `drawn` and matters."""
    if drawn:
        # Before the answer: one that is interrupted can be had again too.
        streams.complain(f"seed {stream.completion.seed}")
    text = ""
    for text in stream:
        print(text, end="", flush=True)
    if not text.endswith("\n"):
        print()
    answer = stream.completion
    if answer.finish_reason == "length" and sys.stderr.isatty():
        print(f"assay: cut off after {len(answer.tokens)} tokens; see --max-tokens", file=sys.stderr)


def _fields(answer: Completion, tokenizer: Tokenizer) -> dict[str, object]:
    """The answer's own, and what can be computed from them: the speed, and texts of alternatives."""
    speed = answer.timings.tokens_per_second(len(answer.tokens))
    texts = partial(tokenizer.decode, skip_special=False)
    return asdict(answer) | {
        "timings": {**vars(answer.timings), "tokens_per_second": speed},
        "top_logprobs": [
            [{"token": token, "text": texts([token]), "logprob": logprob} for token, logprob in place]
            for place in answer.top_logprobs
        ],
        "others": [_fields(other, tokenizer) for other in answer.others],
    }


def _prompt(text: str) -> str:
    """The prompt: this text, or standard input's. Raises RequestError for what is no text, or none."""
    with within("PROMPT"):
        if text == "-" and sys.stdin.isatty():
            streams.complain("assay: type the prompt; Ctrl-D on a line of its own ends it")
        prompt = streams.read("-") if text == "-" else streams.text(os.fsencode(text))
        if not prompt.strip():
            raise RequestError("the prompt is empty", want="something to answer", got=repr(prompt[:40]))
    return prompt

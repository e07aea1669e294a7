"""Decoding with guesses of the next tokens and without: `python -m benchmarks.guesses [MODEL]`.

On a text that repeats itself and on a free one, in turn; the tokens and their probabilities must be equal.
"""

from __future__ import annotations

import argparse
from statistics import median

import assay
from assay.llm.answer import Completion
from assay.llm.language_model import LanguageModel
from benchmarks.text import TEXT

REPETITIVE = "Copy this table.\n" + "".join(f"| row {row} | open | harbour |\n" for row in range(12)) * 2
TEXTS = {"repetitive": REPETITIVE, "free": TEXT[:400]}


def _loaded(name: str, threads: int, guesses: bool) -> LanguageModel:
    lm = assay.load(name, threads=threads, guesses=guesses)
    assert isinstance(lm, LanguageModel)
    return lm


def main() -> int:
    """Measure and print. Returns 1 if a bit differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="smollm2", metavar="MODEL")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--generate", type=int, default=128, metavar="N", help="new tokens (128)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="figures are medians of N (5)")
    asked = parser.parse_args()
    models = {on: _loaded(asked.model, threads=asked.threads, guesses=on) for on in (False, True)}
    equal = True
    for name, text in TEXTS.items():
        rates: dict[bool, list[float]] = {False: [], True: []}
        steps, answers = dict[bool, int](), dict[bool, Completion]()
        for _ in range(asked.rounds + 1):  # the first one warms up
            for on, lm in models.items():
                before = lm.engine.steps
                answer = answers[on] = lm.generate(text, max_tokens=asked.generate)
                steps[on] = lm.engine.steps - before
                rates[on].append(answer.timings.tokens_per_second(len(answer.tokens)))
        ratios = sorted(
            guessed / plain for plain, guessed in zip(*(rates[on][1:] for on in rates), strict=True)
        )
        same = answers[False].tokens == answers[True].tokens
        same = same and answers[False].logprobs == answers[True].logprobs
        equal = equal and same
        print(
            f"{name:<11} {median(rates[False][1:]):6.1f} tokens/s in {steps[False]} steps, with guesses "
            f"{median(rates[True][1:]):6.1f} in {steps[True]}: {ratios[0]:.2f} / {median(ratios):.2f} / "
            f"{ratios[-1]:.2f}×, bits {'equal' if same else 'DIFFERENT'}",
            flush=True,
        )
    return 0 if equal else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Embeddings beside sentence-transformers and ONNX Runtime: `python -m benchmarks.embed --peers PYTHON`."""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import numpy as np

from assay import settings
from assay.cli import machine
from assay.hub.pull import resolve
from assay.llm.folder_tokenizer import FolderTokenizer
from benchmarks import report, text
from benchmarks.engines import Process, Series, Work, importable, measure

PEERS = {"embed_torch": "sentence_transformers", "embed_onnx": "onnxruntime"}
"""Workers, and the module that each needs."""
GOALS = {"embed_torch": 2.0, "embed_onnx": 1.0}
"""Ratios to reach."""
TEXTS, WORDS = 256, (4, 100)
"""Sentences of one round, and how many words they have: as many short ones as long ones, by ratio."""
COSINE = 0.99999
SEED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 1 when the engines' vectors aren't the same."""
    asked = _parser().parse_args(arguments)
    conditions = machine.conditions(asked.threads, SEED) | {"rounds": asked.rounds, "texts": TEXTS}
    report.conditions(conditions)
    path = resolve("minilm")
    tokenizer = FolderTokenizer(path, 30522).tokenizer()
    rounds = [_sentences(SEED + index) for index in range(asked.rounds)]
    counts = [sum(len(tokenizer.encode(each, bos=True, eos=True)) for each in one) for one in rounds]
    with ExitStack() as stack:
        engines = [stack.enter_context(Process("embed_assay"))]
        for peer, module in PEERS.items():
            if importable(asked.peers, module):
                engines.append(stack.enter_context(Process(peer, asked.peers)))
            else:
                print(f"{peer} is left out: {asked.peers} has no module {module}")
        for engine in engines:
            engine.call("load", path=str(path), threads=asked.threads)
            print(f"  {engine.name:<12} {engine.call('about')}")
        agree = _agreement(engines, rounds[0])
        for name, cosine in agree.items():
            print(f"  correctness: {name} has cosines of at least {cosine:.7f} with {engines[0].name}")
        # Rates are in tokens of the mean round; a round's ratios are of the same texts.
        works = [{"texts": one} for one in rounds]
        work = Work("embed", works, sum(counts) // len(counts), works[:2])
        series = measure(engines, work, asked.rounds)
    found = _report(series, engines[0].name)
    if asked.json:
        found |= {"conditions": conditions, "cosines": agree, "tokens": counts}
        asked.json.write_text(json.dumps(found, indent=1), "utf-8")
    return 0 if all(cosine >= COSINE for cosine in agree.values()) else 1


def _sentences(seed: int) -> list[str]:
    """Runs of words of the text that correctness is checked on."""
    words, rng = text.TEXT.split(), np.random.default_rng(seed)
    shortest, longest = map(math.log, WORDS)
    lengths = np.exp(rng.uniform(shortest, longest, TEXTS)).astype(int)
    starts = rng.integers(0, len(words) - WORDS[1], TEXTS)
    return [" ".join(words[at : at + size]) for at, size in zip(starts, lengths, strict=True)]


def _agreement(engines: Sequence[Process], texts: Sequence[str]) -> dict[str, float]:
    """The least cosine of each peer's vectors with the first engine's."""
    vectors = {}
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            path = Path(folder) / f"{engine.name}.npy"
            variant = engine.call("variants", figure="embed")
            engine.call("configure", figure="embed", variant=variant[-1])  # type: ignore[index]
            engine.call("embed", texts=texts)
            engine.call("save", path=str(path))
            vectors[engine.name] = np.load(path).astype(np.float64)
    first = vectors.pop(engines[0].name)
    first /= np.linalg.norm(first, axis=1, keepdims=True)
    found = {}
    for name, other in vectors.items():
        found[name] = float((np.sum(first * other, axis=1) / np.linalg.norm(other, axis=1)).min())
    return found


def _report(series: Mapping[str, Series], own: str) -> report.Found:
    """Print tokens per second (least, median, most) and Assay's ratios by round."""
    found: report.Found = {"engines": {}, "ratios": {}}
    for name, one in series.items():
        rates = sorted(one.rates)
        settled = ", ".join(f"{key} {value}" for key, value in one.variant.items())
        print(
            f"  {name:<12} {rates[0]:>9,.0f} {median(rates):>9,.0f} {rates[-1]:>9,.0f} tokens/s  "
            f"others used up to {max(one.foreign):.0%}  {settled}"
        )
        found["engines"][name] = vars(one)
    for peer, goal in GOALS.items():
        if peer in series:
            pairs = zip(series[own].rates, series[peer].rates, strict=True)
            ratios = sorted(ours / theirs for ours, theirs in pairs)
            middle = median(ratios)
            verdict = "reached" if middle >= goal else "NOT REACHED"
            print(f"  {own} / {peer}: {ratios[0]:.2f} {middle:.2f} {ratios[-1]:.2f}, goal {goal} {verdict}")
            found["ratios"][peer] = ratios
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.embed", description=__doc__)
    parser.add_argument(
        "--peers",
        default=sys.executable,
        metavar="PYTHON",
        help="the interpreter that has the peers (this one)",
    )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="every engine in turn, N times (5)"
    )
    parser.add_argument("--threads", type=int, default=settings.THREADS.get(), metavar="N")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())

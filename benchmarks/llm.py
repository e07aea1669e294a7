"""Assay beside llama.cpp and openvino-genai on the same files: `python -m benchmarks.llm --peers PYTHON`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from statistics import median

from assay import settings
from assay.cli import machine
from assay.formats.gguf import open_gguf
from assay.llm.tokenizer import Tokenizer
from benchmarks import correctness, limits, models, report, starts, text
from benchmarks.engines import Process, Work, importable, measure

PEERS = {"llamacpp": "llama_cpp", "openvino": "openvino_genai"}
"""Workers, and the module that each needs."""
FIGURES = ("prefill", "decode", "batch", "memory", "python", "start")
PROMPT, NEW, SHORT = 512, 128, 16
SEQUENCES, EACH_PROMPT, EACH_NEW = 32, 128, 64
SEED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print. Returns 1 when Assay is too far from float32 arithmetic."""
    asked = _parser().parse_args(arguments)
    conditions = machine.conditions(asked.threads, SEED, rounds=asked.rounds)
    found: report.Found = {"conditions": conditions, "files": {}}
    report.conditions(conditions)
    peers = []
    for name, module in PEERS.items():
        if name not in asked.engines:
            continue
        if importable(asked.peers, module):
            peers.append(name)
        else:
            print(f"{name} is left out: {asked.peers} has no module {module}")
    good = True
    for file in asked.files:
        one = _file(file, peers, asked)
        found["files"][file] = one
        good = good and one["correctness"]["assay"]["good"]
        _write(asked.json, found)
    if "start" in asked.figures:
        times = starts.later(asked.threads, asked.rounds)
        found["start"] = {"later": times, "first": starts.first(asked.threads)}
        report.start(found["start"])
        _write(asked.json, found)
    return 0 if good else 1


def _write(path: Path | None, found: report.Found) -> None:
    if path:
        path.write_text(json.dumps(found, indent=1), "utf-8")


def _file(name: str, peers: Sequence[str], asked: argparse.Namespace) -> report.Found:
    path = models.prepare(name)
    cost = limits.cost(path)
    with ExitStack() as stack:
        assay = stack.enter_context(Process("assay"))
        engines = [assay, *(stack.enter_context(Process(peer, asked.peers)) for peer in peers)]
        for engine in engines:
            engine.call("load", path=str(path), threads=asked.threads)
        abouts = {engine.name: engine.call("about") for engine in engines}
        report.file(name, cost, abouts)
        agreements = correctness.check(assay, engines, _tokens(path))
        found: report.Found = {
            "tensor_bytes": cost.tensor_bytes,
            "engines": abouts,
            "correctness": {
                engine: asdict(agreement) | {"good": agreement.good}
                for engine, agreement in agreements.items()
            },
            "figures": {},
        }
        report.correctness(agreements)
        for work in _works(asked, name):
            before = limits.measure(asked.threads)
            series = measure(engines, work, asked.rounds)
            # Measured before and after: what the machine gives changes while others share it.
            best = before.best(limits.measure(asked.threads))
            least = {
                "prefill": cost.prefill(best, PROMPT),
                "decode": NEW * cost.decode(best),
                "batch": cost.batch(best, SEQUENCES, EACH_PROMPT, EACH_NEW),
            }
            limit = work.tokens / least[work.figure]
            found["figures"][work.figure] = report.figure(name, work.figure, series, best, limit)
        if "python" in asked.figures:
            found["python"] = [
                float(str(assay.call("outside", tokens=prompt, count=NEW)))
                for prompt in text.random_prompts(SEED, asked.rounds, SHORT)
            ]
            report.python(median(found["python"]))
        if "memory" in asked.figures:
            found["memory"] = {}
    if "memory" in asked.figures:
        for engine_name in ("assay", *peers):
            taken = _memory(engine_name, path, asked)
            found["memory"][engine_name] = taken
            report.memory(engine_name, taken, cost.tensor_bytes)
    return found


def _works(asked: argparse.Namespace, name: str) -> list[Work]:
    """What is timed on this file."""
    longs = [{"tokens": prompt} for prompt in text.random_prompts(SEED, asked.rounds, PROMPT)]
    shorts = text.random_prompts(SEED + 1, asked.rounds, SHORT)
    decodes = [{"tokens": prompt, "count": NEW} for prompt in shorts]
    works = [Work("prefill", longs, PROMPT, longs[:3]), Work("decode", decodes, NEW, decodes[:2])]
    if name in asked.batch_files:
        many = text.random_prompts(SEED + 2, asked.rounds * SEQUENCES, EACH_PROMPT)
        groups = [many[start : start + SEQUENCES] for start in range(0, len(many), SEQUENCES)]
        batches = [{"prompts": group, "count": EACH_NEW} for group in groups]
        trial = {"prompts": groups[0][: SEQUENCES // 2], "count": EACH_NEW // 4}
        works.append(Work("batch", batches, SEQUENCES * (EACH_PROMPT + EACH_NEW), [trial]))
    return [work for work in works if work.figure in asked.figures]


def _memory(name: str, path: Path, asked: argparse.Namespace) -> dict[str, int]:
    """What a fresh process takes once it has answered the 32 sequences: its whole cache was touched."""
    with Process(name, sys.executable if name == "assay" else asked.peers) as engine:
        engine.call("load", path=str(path), threads=asked.threads)
        variants = engine.call("variants", figure="batch")
        assert isinstance(variants, list)
        engine.call("configure", figure="batch", variant=variants[0])
        prompts = text.random_prompts(SEED, SEQUENCES, EACH_PROMPT)
        engine.call("batch", prompts=prompts, count=EACH_NEW)
        taken = engine.call("memory")
    assert isinstance(taken, dict)
    return taken


def _tokens(path: Path) -> list[int]:
    with open_gguf(path) as file:
        return Tokenizer.from_gguf(file.metadata).encode(text.TEXT)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks.llm", description=__doc__)
    parser.add_argument(
        "--peers",
        default=sys.executable,
        metavar="PYTHON",
        help="the interpreter that has the peers (this one)",
    )
    for option, choices, default in (
        ("--files", tuple(models.FORMATS), tuple(models.FORMATS)),
        ("--batch-files", tuple(models.FORMATS), ("q8_0",)),
        ("--figures", FIGURES, FIGURES),
        ("--engines", tuple(PEERS), tuple(PEERS)),
    ):
        parser.add_argument(
            option,
            nargs="*",
            choices=choices,
            default=default,
            metavar="NAME",
            help=f"some of {', '.join(choices)} ({', '.join(default)})",
        )
    parser.add_argument(
        "--rounds", type=int, default=5, metavar="N", help="every engine in turn, N times (5)"
    )
    parser.add_argument("--threads", type=int, default=settings.THREADS.get(), metavar="N")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all figures there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())

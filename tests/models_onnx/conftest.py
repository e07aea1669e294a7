from __future__ import annotations

from collections.abc import Callable

import pytest

from assay import hub
from models_onnx.engines import ENGINES, Run

Engine = Callable[[str], Run]


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """What runs a graph of the catalogue, by its name; each is loaded once."""
    loaded: dict[str, Run] = {}

    def run(name: str) -> Run:
        if name not in loaded:
            loaded[name] = ENGINES[request.param](hub.pull(name))
        return loaded[name]

    return run

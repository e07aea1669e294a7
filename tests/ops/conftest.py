from __future__ import annotations

import pytest

from assay.ops import registry
from toys import TOYS


@pytest.fixture
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the registry that the test may change."""
    registry.all_operators()
    monkeypatch.setattr(registry, "_operators", dict(registry._operators))


@pytest.fixture
def toys(own_registry: None) -> None:
    for operator in TOYS:
        registry.register(operator)

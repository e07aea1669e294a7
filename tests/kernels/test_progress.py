"""Who waits for the compiler hears of it from the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay.kernels import cache, target


def test_progress_is_told_before_and_after_each_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path))
    told: list[tuple[int, int, str]] = []

    def hear(ready: int, wanted: int, name: str) -> None:
        told.append((ready, wanted, name))

    for _ in range(2):
        cache.objects(["move.gather_rows"], target.current(), hear)
    # The second time there is nothing to wait for.
    assert told == [(0, 1, ""), (1, 1, "move.gather_rows")]

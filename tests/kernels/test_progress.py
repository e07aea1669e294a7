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

    names = ["norm.rms_norm", "move.gather_rows"]
    cache.objects(names, target.current(), hear)
    assert told[0] == (0, 2, "")
    assert [(ready, wanted) for ready, wanted, _ in told[1:]] == [(1, 2), (2, 2)]
    assert {name for _, _, name in told[1:]} == set(names)
    cache.objects(names, target.current(), hear)
    assert len(told) == 3

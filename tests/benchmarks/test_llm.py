from __future__ import annotations

import pytest

from benchmarks import llm


def test_conditions_come_before_the_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(llm, "_file", lambda *asked: {"correctness": {"assay": {"good": True}}})
    assert llm.main(["--files", "q4_1", "--figures", "decode", "--engines", "--rounds", "3"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in ("processor", "threads", "seed", "rounds", "numba"))

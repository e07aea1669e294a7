"""Progress bars: on a terminal's standard error, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from assay.cli import progress
from assay.cli.progress import Bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_each_slow_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Bars() as bars:
        bars.download(10**6, 2 * 10**6)
        bars.download(2 * 10**6, 2 * 10**6)
        bars.compile(3, 20, "norm.rms_norm")
        bars.weights(5 * 10**6, 90 * 10**6)
    shown = terminal.getvalue()
    assert "compiling kernels" in shown and "3 of 20" in shown
    assert "loading weights" in shown and "5 of 90" in shown


def test_a_quick_stage_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 1000.0)
    with Bars() as bars:
        for done in range(11):
            bars.weights(done, 10)
    assert terminal.getvalue() == ""


def test_what_is_no_terminal_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Bars() as bars:
        bars.download(1, 2)
        bars.compile(1, 2, "x")
    assert stream.getvalue() == ""


def test_an_unknown_total_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Bars() as bars:
        bars.download(10**6, 0)
        bars.download(2 * 10**6, 0)

"""Progress bars: on a terminal's standard error, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

from assay.cli.progress import Bars


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_terminal_sees_each_slow_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=0.0) as bars:
        bars.download(10**6, 2 * 10**6)
        bars.download(2 * 10**6, 2 * 10**6)
        bars.weights(5 * 10**6, 90 * 10**6)
    assert "fetching the model" in terminal.getvalue()
    assert "loading weights" in terminal.getvalue() and "5 of 90" in terminal.getvalue()


def test_a_compilation_is_shown_from_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=1000.0) as bars:
        bars.compile(3, 20, "")
    assert "compiling kernels" in terminal.getvalue() and "3 of 20" in terminal.getvalue()


def test_a_quick_stage_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=1000.0) as bars:
        for done in range(11):
            bars.weights(done, 10)
    assert terminal.getvalue() == ""


def test_what_is_no_terminal_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Bars(delay=0.0) as bars:
        bars.download(1, 2)
        bars.compile(1, 2, "x")
    assert stream.getvalue() == ""


def test_an_unknown_total_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(monkeypatch)
    with Bars(delay=0.0) as bars:
        bars.download(10**6, 0)
        bars.download(2 * 10**6, 0)

"""Progress bars: on a terminal's standard error, and nowhere else."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import assay
from assay import Progress
from assay.cli.progress import Bars
from assay.kernels import cache
from assay.runtime import cpu, executor, team


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


def test_a_bar_has_its_total_from_the_start_and_words_stand_between(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=0.0) as bars:
        for done in (0, 1, 93):
            bars.download(done * 10**6, 93 * 10**6)
        bars.say("loading the model")
        for done in range(18):
            bars.compile(done, 17, "")
        bars.weights(0, 90 * 10**6)
        bars.weights(90 * 10**6, 90 * 10**6)
    text = terminal.getvalue()
    figures = re.findall(r"\d+ of \d+ \w+", text)
    assert {figure.partition(" of ")[2] for figure in figures} == {"93 MB", "17 kernels", "90 MB"}
    words = (
        "fetching the model",
        "checking what",
        "loading the model",
        "compiling",
        "loading the model",
        "loading weights",
    )
    at = 0
    for word in words:
        at = text.index(word, at)
    assert text.rindex("loading the model") > text.rindex("loading weights")
    # One line at a time.
    assert text.count("\x1b[1A") <= 1, "the end takes the line away"


def test_the_end_of_a_stage_that_was_not_shown_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=0.0) as bars:
        bars.weights(10, 10)
    assert terminal.getvalue() == ""


def test_words_alone_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=0.0) as bars:
        bars.say("loading the model")
    assert terminal.getvalue() == ""


def test_all_that_a_model_takes_is_compiled_together(
    monkeypatch: pytest.MonkeyPatch, smollm2_path: Path
) -> None:
    asked: list[tuple[set[str], bool]] = []
    real = cache.addresses

    def addresses(names: Iterable[str], progress: cache.Progress | None = None) -> dict[str, int]:
        listed = list(names)
        asked.append((set(listed), progress is not None))
        return real(listed, progress)

    for module in (executor, cpu, team):
        monkeypatch.setattr(module, "addresses", addresses)
    lm = assay.load(smollm2_path, threads=2, progress=Progress())
    lm.generate("Once upon a time", max_tokens=2)
    (first, told), *later = asked
    assert told and later
    assert all(names <= first for names, _ in later)


def test_a_quick_stage_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = shown(monkeypatch)
    with Bars(delay=1000.0) as bars:
        for done in range(11):
            bars.weights(done, 10)
    assert terminal.getvalue() == ""


def test_what_is_no_terminal_gets_a_line_for_each_long_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Bars(delay=0.0) as bars:
        for done in range(3):
            bars.download(done * 10**6, 2 * 10**6)
            bars.compile(done, 2, "x")
            bars.weights(done, 2)
            bars.say("loading the model")
        bars.count("quantising", "tensors", 1, 2)
    assert stream.getvalue() == (
        "assay: fetching the model, 2 MB\nassay: compiling kernels, once, 2 kernels\n"
    )


@pytest.mark.parametrize(("total", "said"), [(2, ""), (0, "assay: fetching the model\n")])
def test_what_is_done_already_gets_no_line(monkeypatch: pytest.MonkeyPatch, total: int, said: str) -> None:
    """A total of 0 isn't known."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with Bars(delay=0.0) as bars:
        bars.download(2, total)
    assert stream.getvalue() == said


def test_an_unknown_total_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    shown(monkeypatch)
    with Bars(delay=0.0) as bars:
        bars.download(10**6, 0)
        bars.download(2 * 10**6, 0)

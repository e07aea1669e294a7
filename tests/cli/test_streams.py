"""Standard streams that are full or closed: one error in the usual form, exit code 1, no traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASSAY = f"{sys.executable} -m assay"
PRINTING = [
    "show smollm2", "show smollm2 --plan", "contract", "contract linear", "settings", "doctor --help",
    "--version", "pull smollm2", "run smollm2 hi --max-tokens 3",
]  # fmt: skip


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", f"{ASSAY} {line}"], capture_output=True, text=True)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", PRINTING)
def test_a_full_disk(smollm2: object, monkeypatch: pytest.MonkeyPatch, line: str, unbuffered: str) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    done = shell(f"{line} >/dev/full")
    assert done.returncode == 1
    assert done.stderr == (
        "assay: standard output: it can't be written to\n  got    No space left on device\n"
    )


@pytest.mark.parametrize("line", PRINTING)
def test_a_closed_output(line: str) -> None:
    done = shell(f"{line} >&-")
    assert done.returncode == 1
    assert done.stderr == (
        "assay: standard output: it is closed\n  hint   send it to a file, or to /dev/null\n"
    )


@pytest.mark.parametrize("away", ["2>/dev/full", "2>&-"])
def test_an_error_that_cant_be_told_keeps_its_code(away: str) -> None:
    for line, code in (("run nosuch hi", 2), ("nosuch", 2), ("check /dev/null", 1)):
        done = shell(f"{line} {away}")
        assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


@pytest.mark.parametrize("away", ["2>/dev/full", "2>&-"])
def test_an_answer_needs_no_standard_error(smollm2: object, away: str) -> None:
    done = shell(f"run smollm2 hi --max-tokens 3 --temperature 1 {away}")
    assert done.returncode == 0 and done.stdout and done.stderr == ""


def test_a_closed_input_is_an_empty_one() -> None:
    done = shell("run smollm2 - <&-")
    assert done.returncode == 2 and "the prompt is empty" in done.stderr and "Traceback" not in done.stderr


def test_an_error_of_ours_isnt_taken_for_the_outputs() -> None:
    code = """
from assay.cli import dispatch
def broken(arguments):
    raise OSError(5, "of the machine's")
dispatch._dispatch = broken
dispatch.execute(["x"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "OSError: [Errno 5] of the machine's" in done.stderr

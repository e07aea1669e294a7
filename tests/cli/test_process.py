"""What only a process of its own can show: streaming, signals, closed pipes, terminals."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ASSAY = [sys.executable, "-m", "assay"]
STORY = ["run", "smollm2", "Tell me a long story.", "--max-tokens", "2000"]
PATIENCE = 600
"""Seconds: generous, since a busy machine is no fault."""


@pytest.fixture(autouse=True)
def _compiled(smollm2: object) -> None:
    """Kernels are compiled and the model is here before a process is interrupted."""


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*ASSAY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_text_arrives_while_it_is_made_and_ctrl_c_ends_it_cleanly() -> None:
    with start(*STORY) as child:
        assert child.stdout and child.stderr
        assert os.read(child.stdout.fileno(), 1)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        child.wait(PATIENCE)
        assert child.returncode == 130
        assert child.stderr.read() == b"\n"


def test_a_closed_pipe_ends_it_quietly() -> None:
    with start("show", "smollm2") as child:
        assert child.stdout and child.stderr
        assert child.stdout.readline().startswith(b"    1  graph ")
        child.stdout.close()
        child.wait(PATIENCE)
        assert child.returncode == 0
        assert child.stderr.read() == b""


def test_an_error_of_a_model_is_exit_code_1_and_its_text(tmp_path: Path) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(b"GGUF, but not really")
    done = subprocess.run([*ASSAY, "run", str(path), "a secret"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"assay: {path}") and "Traceback" not in done.stderr
    assert "secret" not in done.stderr


def test_debugging_shows_the_traceback_too(tmp_path: Path) -> None:
    environment = {**os.environ, "ASSAY_DEBUG": "1"}
    command = [*ASSAY, "run", str(tmp_path / "none.gguf"), "a secret"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" in done.stderr and "no such model file" in done.stderr
    assert "secret" not in done.stderr


def test_a_conversation_in_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [*ASSAY, "chat", "smollm2", "--max-tokens", "8"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        seen = b""

        def until(wanted: bytes) -> None:
            nonlocal seen
            end = time.monotonic() + PATIENCE
            while wanted not in seen:
                assert select.select([ours], [], [], max(0.0, end - time.monotonic()))[0], seen
                seen += os.read(ours, 4096)
            seen = seen.partition(wanted)[2]

        try:
            until(b"Ctrl-D leaves")
            until(b"> ")
            # A letter is wrong, and taken back.
            os.write(ours, b"/helq\x7fp\n")
            until(b"/reset")
            until(b"> ")
            os.write(ours, b"Hello!\n")
            until(b"tokens/s")
            until(b"> ")
            os.write(ours, b"\x04")
            assert child.wait(PATIENCE) == 0
        finally:
            child.kill()
            os.close(ours)

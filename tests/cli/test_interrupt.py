"""Ctrl-C at any moment of a process's life: a newline, exit code 130, and nothing left behind."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

STORY = ["run", "smollm2", "Tell me a long story.", "--max-tokens", "2000"]
PATIENCE = 600
"""Seconds: generous, since a busy machine is no fault."""

AT_IMPORT = """
    import os, signal, sys

    class Interrupter:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == module:
                os.kill(os.getpid(), signal.SIGINT)

    module = sys.argv.pop(1)
    from assay.cli import main
    assert module not in sys.modules
    sys.meta_path.insert(0, Interrupter)
    sys.exit(main())
"""
"""Runs `assay` with all arguments but the first, a module's name: Ctrl-C comes when it is to be imported."""

AFTER = """
    import sys
    from assay.cli import interrupt, main
    ready = interrupt.end_at_once

    def tell():
        ready()
        print("ready", file=sys.stderr, flush=True)

    interrupt.end_at_once = tell
    sys.exit(main())
"""
"""Runs `assay`, and says when Ctrl-C is provided for."""


def start(code: str, *arguments: str, **options: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, **options)


@pytest.mark.parametrize(
    "module",
    [
        # Before the first of these is imported, Ctrl-C is Python's own exception.
        *(
            "assay.cli.interrupt",
            "assay.cli.dispatch",
            "argparse",
            "assay.cli.run",
            "assay.hub.wheel",
            "numpy",
            "numpy.linalg",
        ),
        *("numpy._core._multiarray_umath", "assay.llm.loader", "tokenizers", "jinja2.environment", "ctypes"),
    ],
)
def test_amid_any_import(smollm2: object, module: str) -> None:
    with start(AT_IMPORT, module, *STORY, stdout=subprocess.DEVNULL) as child:
        assert child.stderr and child.stderr.read() == b"\n"
        assert child.wait(PATIENCE) == 130


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5])
def test_at_any_time(smollm2: object, delay: float) -> None:
    with start(AFTER, *STORY, stdout=subprocess.DEVNULL) as child:
        assert child.stderr and child.stderr.readline() == b"ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGINT)
        assert child.stderr.read() == b"\n"
        assert child.wait(PATIENCE) == 130


def test_what_is_imported_before_it_is_provided_for_is_little() -> None:
    code = "import sys; before = set(sys.modules); import assay.cli; print(*set(sys.modules) - before)"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path += {sys.path}; {code}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {name for name in found if name.startswith("assay")} == {
        "assay",
        "assay.errors",
        "assay.load",
        "assay.cli",
    }
    assert not {
        "signal",
        "enum",
        "typing",
        "pathlib",
        "dataclasses",
        "inspect",
        "argparse",
        "contextlib",
    } & set(found)


def test_who_starts_it_may_have_it_ignored() -> None:
    code = "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + textwrap.dedent(AT_IMPORT)
    with start(code, "assay.cli.contract", "contract", stdout=subprocess.PIPE) as child:
        out, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0 and err == b"" and b"attention" in out


def test_the_terminals_cursor_is_shown_again() -> None:
    code = """
        import os, signal
        from assay.cli import interrupt
        from assay.cli.progress import Bars
        interrupt.end_at_once()
        with Bars(delay=0.0) as bars:
            bars.download(1, 2)
            os.kill(os.getpid(), signal.SIGINT)
    """
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stderr=theirs, env={**os.environ, "TERM": "xterm"}) as child:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:  # how a terminal that nobody holds any more ends on Linux
            pass
        os.close(ours)
    assert child.returncode == 130
    assert b"fetching the model" in seen
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")


@pytest.mark.parametrize("command", [["infer", "-i", "x=[1]"], ["bench", "onnx", "--peer", "none"]])
def test_while_a_tape_runs_in_native_code(command: list[str], tmp_path: Path) -> None:
    """Half a minute of matrix products, in which Python calls no handler."""
    products = [helper.make_node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(40)]
    nodes = [helper.make_node("Expand", ["x", "sizes"], ["m0"]), *products]
    nodes.append(helper.make_node("ReduceMax", ["m40"], ["y"], keepdims=0))
    value = helper.make_tensor_value_info
    sizes = helper.make_tensor("sizes", TensorProto.INT64, [2], [4000, 4000])
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1])], [value("y", 1, [])], [sizes])
    path = tmp_path / "long.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    with start(AFTER, *command, str(path), stdout=subprocess.DEVNULL) as child:
        assert child.stderr and child.stderr.readline() == b"ready\n"
        time.sleep(3)
        child.send_signal(signal.SIGINT)
        sent = time.monotonic()
        assert child.stderr.read() == b"\n"
        assert child.wait(PATIENCE) == 130 and time.monotonic() - sent < 5

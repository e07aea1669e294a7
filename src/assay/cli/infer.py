"""Run an ONNX graph once: arrays from files in, a table of the outputs, or a file of them, out.

Arrays are taken as they are: one of another dtype is refused, and the error says what makes it fit. JSON, a
number or a list in brackets, becomes an array of the input's dtype. With --node one node is run alone: -i may
then be any value of the graph, and --on reference runs Python code that a debugger can step through. With
--nonfinite error, the first node that makes infinity or NaN of finite values is an error that names it.

    assay infer model.onnx -i x=@x.npy -o out.npz
    assay infer model.onnx -i x=@arrays.npz -i rate=16000 --json
    assay infer model.onnx --node /fc1/Gemm -i x=@x.npy --on reference
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.cli import options
from assay.cli.arrays import INPUTS, arrays, inputs_of
from assay.cli.command import Argument, Report, Values
from assay.cli.model import load_graph, writing
from assay.cli.progress import Bars
from assay.cli.text import table
from assay.errors import RequestError

if TYPE_CHECKING:
    from assay.runtime.model import Model

Array = NDArray[Any]
SUFFIXES = (".npz", ".npy")
WAYS = ("kernel", "reference")
NONFINITE = ("allow", "error")
FIGURES = ("min", "max", "mean")
SHOWN = 60
"""Characters of what is no array of numbers, in the table."""
MADE = options.one_of(NONFINITE)


def _out(text: str) -> Path:
    if not text.endswith(SUFFIXES):
        raise RequestError("no such form", want="a name that ends in .npz or .npy", got=repr(text))
    return Path(text)


ARGUMENTS = (
    options.MODEL,
    INPUTS,
    Argument("-o", "write the outputs: all of them, or the only one to .npy", "FILE", _out),
    Argument("--node", "run this node alone, on values of its inputs or of those that lead to them", "NAME"),
    Argument("--on", "how a node is run alone; default: kernel", "|".join(WAYS), options.one_of(WAYS)),
    Argument("--nonfinite", "infinity or NaN made of finite values", "|".join(NONFINITE), MADE, "allow"),
    options.THREADS,
    options.JSON,
)


def run(arguments: Values) -> Report:
    with Bars() as progress:
        model = load_graph(arguments, progress)
        given = arrays(_dtypes(model, arguments), arguments.i or ())
        outputs = _outputs(model, given, arguments)
    if arguments.o:
        _write(arguments.o, outputs)
    rows = [_summary(name, value) for name, value in outputs.items()]
    columns = max((list(row) for row in rows), key=len, default=[])
    cells = [[_cell(key, value) for key, value in row.items()] for row in rows]
    return Report(rows, table([columns, *cells], left=3))


def _dtypes(model: Model, arguments: Values) -> dict[str, str]:
    """Of what may be given: the inputs or, for a node alone, all values."""
    known = inputs_of(model)
    if arguments.node is None or all(name in known for name, _ in arguments.i or ()):
        return known
    from assay.formats.onnx_file import load_onnx
    from assay.hub.pull import resolve
    from assay.runtime.model import analyse

    types = analyse(load_onnx(resolve(arguments.model))).types
    return {
        name: str(kind if kind.element else kind.dtype) if kind else ""
        for name, kind in types.items()
        if name not in model.program.weights
    }


def _outputs(model: Model, given: Mapping[str, object], arguments: Values) -> dict[str, object]:
    from assay.audit.alone import run_alone

    if arguments.node is None:
        if arguments.on is not None:
            raise RequestError("it is for a node alone", place="--on", got=arguments.on, hint="--node NAME")
        return model.run(given, nonfinite=arguments.nonfinite)
    if arguments.nonfinite != "allow":
        rule, hint = "it is for whole runs", "leave out --node"
        raise RequestError(rule, place="--nonfinite", got=arguments.nonfinite, hint=hint)
    return run_alone(model, arguments.node, given, arguments.on or WAYS[0])


def _write(path: Path, outputs: Mapping[str, object]) -> None:
    arrays = {name: value for name, value in outputs.items() if isinstance(value, np.ndarray)}
    for name, value in outputs.items():
        if name not in arrays or arrays[name].dtype == object:
            kind, want = "strings" if name in arrays else type(value).__name__, "an array of numbers"
            rule, hint = "NumPy's files hold numbers alone", "--json has its values"
            raise RequestError(rule, place=f"-o {path} › output {name}", want=want, got=kind, hint=hint)
    if path.suffix == ".npy" and len(arrays) != 1:
        got = ", ".join(arrays)
        raise RequestError("several outputs", place=f"-o {path}", want=".npz", got=got)
    with writing(path, "", force=True, name="-o"):
        if path.suffix == ".npy":
            np.save(path, next(iter(arrays.values())))
        else:
            np.savez(path, **arrays)  # type: ignore[arg-type]  # its own option is allow_pickle


def _summary(name: str, value: object) -> dict[str, object]:
    """An output's name, type and range; of what is no array of real numbers its length and values."""
    found = {"name": name, "dtype": type(value).__name__, "shape": None, **dict.fromkeys(FIGURES)}
    if isinstance(value, list | dict):
        found["shape"] = [len(value)]
    if isinstance(value, np.ndarray):
        found |= {"dtype": str(value.dtype), "shape": list(value.shape)}
        if value.dtype.kind not in "Oc":
            wide = value.astype(np.float64)
            with np.errstate(all="ignore"):
                figures = (wide.min(), wide.max(), wide.mean()) if value.size else (None, None, None)
            return found | dict(zip(FIGURES, map(_plain, figures), strict=True))
    return found | {"values": _plain(value)}


def _plain(value: object) -> object:
    """A value as JSON has it, which has no infinities."""
    if isinstance(value, np.ndarray | np.generic):
        value = (value.astype(np.float64) if value.dtype.kind == "V" else value).tolist()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    odd = isinstance(value, complex) or (isinstance(value, float) and not np.isfinite(value))
    return str(value) if odd else value


def _cell(column: str, value: object) -> object:
    if column != "values":
        return "" if value is None else value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"

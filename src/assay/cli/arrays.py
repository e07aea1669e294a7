"""Arrays that a command is given: in files of NumPy's, or as values in JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.cli import options
from assay.cli.command import Argument
from assay.errors import RequestError, near, within

if TYPE_CHECKING:
    from assay.runtime.model import Model

Array = NDArray[Any]
MEANING = "an input: an array in a file of NumPy's, or a value in JSON"
INPUTS = Argument("-i", MEANING, "NAME=@FILE|JSON", options.named(str), repeated=True)


def arrays(dtypes: Mapping[str, str], given: Iterable[tuple[str, str]]) -> dict[str, Array]:
    """Those for values of a graph, whose dtypes are known, by name.

    Raises RequestError for a name that isn't there or comes twice, and for what is no array.
    """
    found: dict[str, Array] = {}
    for name, text in given:
        with within(f"-i {name}"):
            _refuse(name, dtypes, found)
            found[name] = _array(name, text, dtypes[name])
    return found


def inputs_of(model: Model) -> dict[str, str]:
    """The dtypes of a model's inputs."""
    return {spec.name: spec.dtype for spec in model.inputs}


def sizes(model: Model, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """What --shape says of a model's inputs. Raises RequestError for a strange name, and one given twice."""
    found: dict[str, tuple[int, ...]] = {}
    for name, each in shapes:
        with within(f"--shape {name}"):
            _refuse(name, inputs_of(model), found)
        if prod(filter(None, each)) >> 58:  # which NumPy refuses in ways of its own
            raise MemoryError(f"{name}[{', '.join(map(str, each))}]")
        found[name] = each
    return found


def _refuse(name: str, known: Collection[str], found: Collection[str]) -> None:
    if name not in known:
        want = ", ".join(known) or "no inputs"
        raise RequestError("no such input", want=want[:200], got=name, hint=near(name, known))
    if name in found:
        raise RequestError("an input given twice", want="each once", got=name)


def _array(name: str, text: str, dtype: str) -> Array:
    """The array in a file (of an archive that of the input's name), or the value in that text."""
    from assay.tensor.dtype import BY_NAME
    from assay.tensor.narrow import numpy_of

    if "(" in dtype:
        raise RequestError("only arrays can be given here", want=dtype, got=repr(text), hint="Model.run")
    kind = numpy_of(BY_NAME[dtype]) if dtype in BY_NAME else None
    if text.startswith("@"):
        with within(text[1:]):
            found = _file(name, Path(text[1:]))
        # NumPy's files say of bfloat16 and narrower only how many bytes they have.
        if kind and found.dtype.kind == "V" and kind.itemsize == found.itemsize:
            return found.view(kind)
        return found
    if kind is None:
        raise RequestError("JSON for a dtype that isn't known", want="@FILE", got=repr(text))
    try:
        return _value(text, kind)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        form = "{}" if "int" in dtype else "{:.6g}"
        limits = "" if kind.kind in "bO" else f" from {form} to {form}".format(*_limits(kind))
        want = f"{dtype}{limits} in JSON, or @FILE"
        hint = f"-i {name}=@{text}" if len(os.fsencode(text)) < 200 and Path(text).is_file() else ""
        raise RequestError("no such value", want=want, got=repr(text), hint=hint) from error


def _value(text: str, kind: np.dtype[np.generic]) -> Array:
    """Raises ValueError and its like for what isn't JSON, and for what such an array can't hold."""
    bare = kind.kind == "O" and not text.startswith(("[", '"'))
    wide = np.array(text if bare else json.loads(text, parse_float=_finite))
    with np.errstate(all="ignore"):
        made = wide.astype(kind)
    plain = {"b": "b", "O": "U"}.get(kind.kind)
    if wide.size and (wide.dtype.kind not in (plain or "iuf") or not (plain or _holds(made, wide))):
        raise ValueError
    return np.ascontiguousarray(made).reshape(wide.shape)


def _finite(text: str) -> float:
    if np.isinf(float(text)):
        raise OverflowError
    return float(text)


def _limits(kind: np.dtype[np.generic]) -> tuple[float, float]:
    import ml_dtypes

    if "int" in kind.name:
        return ml_dtypes.iinfo(kind).min, ml_dtypes.iinfo(kind).max
    return float(ml_dtypes.finfo(kind).min), float(ml_dtypes.finfo(kind).max)


def _holds(made: Array, wide: Array) -> bool:
    """Whether numbers came to what they are, but for rounding."""
    low, high = _limits(made.dtype)
    finite = np.isfinite(wide)
    if isinstance(low, int):
        return wide.dtype.kind != "f" and bool(((low <= wide) & (wide <= high)).all())
    same = all((test(made) == test(wide)).all() for test in (np.isnan, np.isinf))
    return same and bool(((low <= wide[finite]) & (wide[finite] <= high)).all())


def _file(name: str, path: Path) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if name not in loaded:
                raise RequestError("no such array in the file", want=name, got=", ".join(loaded))
            found: Array = loaded[name]
            return found
    except (OSError, ValueError, EOFError) as error:
        got = getattr(error, "strerror", None) or str(error)[:200]
        got = "something else, or Python's objects" if "pickle" in got else got
        raise RequestError("it can't be read", want="an array that NumPy wrote", got=got) from error

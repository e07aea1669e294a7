"""Arrays that a command is given: in files of NumPy's, or as values in JSON."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
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
INPUTS = Argument("-i", "an input", "NAME=@FILE|VALUE", options.named(str), repeated=True)


def arrays(model: Model, given: Iterable[tuple[str, str]], *, values: bool = False) -> dict[str, Array]:
    """Those for a model's inputs, by name; with `values`, files may be for any of its values.

    Raises RequestError for a name that isn't there or comes twice, and for what is no array.
    """
    specs = {spec.name: spec for spec in model.inputs}
    found: dict[str, Array] = {}
    for name, text in given:
        with within(f"-i {name}"):
            _refuse(name, (name,) if values and text.startswith("@") else specs, found)
            found[name] = _array(name, text, specs[name].dtype if name in specs else "")
    return found


def sizes(model: Model, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> dict[str, tuple[int, ...]]:
    """What --shape says of a model's inputs. Raises RequestError for a strange name, and one given twice."""
    found: dict[str, tuple[int, ...]] = {}
    for name, each in shapes:
        with within(f"--shape {name}"):
            _refuse(name, [spec.name for spec in model.inputs], found)
        if prod(filter(None, each)) >> 58:  # which NumPy refuses in ways of its own
            raise MemoryError(f"{name}[{', '.join(map(str, each))}]")
        found[name] = each
    return found


def _refuse(name: str, known: Collection[str], found: Collection[str]) -> None:
    if name not in known:
        want = ", ".join(known) or "no inputs"
        raise RequestError("no such input", want=want, got=name, hint=near(name, known))
    if name in found:
        raise RequestError("an input given twice", want="each once", got=name)


def _array(name: str, text: str, dtype: str) -> Array:
    """The array in a file (of an archive that of the input's name), or the value in that text."""
    from assay.tensor.dtype import BY_NAME
    from assay.tensor.narrow import numpy_of

    if text.startswith("@"):
        found = _file(name, Path(text[1:]))
        # NumPy's files say of bfloat16 and narrower only how many bytes they have.
        if (
            found.dtype.kind == "V"
            and dtype in BY_NAME
            and numpy_of(BY_NAME[dtype]).itemsize == found.itemsize
        ):
            return found.view(numpy_of(BY_NAME[dtype]))
        return found
    if dtype not in BY_NAME:
        raise RequestError("values can't be given here", want=dtype, got=repr(text))
    kind = numpy_of(BY_NAME[dtype])
    texts = dtype == "string" and not text.startswith(("[", '"'))
    try:
        value = text if texts else json.loads(text)
        wide = np.array(value)
        made = wide.astype(kind)
    except (ValueError, TypeError, OverflowError) as error:
        raise RequestError("no such value", want=f"{dtype}, or @FILE", got=repr(text)) from error
    whole = dtype.startswith(("int", "uint"))
    admitted = {"bool": "b", "string": "U"}.get(dtype, "iu" if whole else "iuf")
    if wide.dtype.kind not in admitted or (whole and made.astype(wide.dtype).tolist() != wide.tolist()):
        raise RequestError("no such value", want=f"{dtype}, or @FILE", got=repr(text))
    return np.ascontiguousarray(made).reshape(wide.shape)


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
        raise RequestError("it can't be read", want="an array that NumPy wrote", got=got) from error

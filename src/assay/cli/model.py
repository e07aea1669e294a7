"""The model that a command asks for, and the file that it makes."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from assay.cli import interrupt
from assay.cli.command import Values
from assay.cli.progress import Bars
from assay.errors import RequestError
from assay.formats import output
from assay.hub.pull import resolve
from assay.load import load

if TYPE_CHECKING:
    from assay.llm.embedding_model import EmbeddingModel
    from assay.llm.language_model import LanguageModel
    from assay.runtime.model import Model


def find_model(name: str, progress: Bars) -> Path:
    """The model's file, fetched where it isn't here. Ctrl-C leaves nothing half-fetched behind."""
    with interrupt.raises():
        path = resolve(name, progress.download)
    progress.say("loading the model")
    return path


def find_weights(name: str, progress: Bars) -> Path:
    """The file or folder of a model of texts, as `find_model` does. Raises RequestError for a graph."""
    path = find_model(name, progress)
    if path.suffix == ".onnx":
        want = "a .gguf file or a folder with safetensors"
        raise RequestError(
            "this model takes no text", place=name, want=want, got="a graph", hint="assay infer"
        )
    return path


def find_graph(name: str, progress: Bars, hint: str) -> Path:
    """An ONNX file, as `find_model` does. Raises RequestError, with what takes it, for a model of texts."""
    path = find_model(name, progress)
    if path.suffix != ".onnx":
        raise RequestError("this model takes texts, not arrays", place=name, want="an .onnx file", hint=hint)
    return path


def load_model(arguments: Values) -> LanguageModel:
    """The language model, loaded with progress bars. Raises RequestError for an embedder."""
    lm = load_any(arguments)
    if hasattr(lm, "embed"):
        raise RequestError("this model makes no text", place=arguments.model, hint="assay embed")
    return lm


def load_any(arguments: Values) -> LanguageModel | EmbeddingModel:
    """A model, with progress bars. Commands without --guesses measure: theirs computes all that is asked.

    A command keeps the model to its end, so the collector is spared it.
    """
    given = vars(arguments)
    adapter, draft = given.get("adapter"), given.get("draft")
    with Bars() as progress:
        path = find_weights(arguments.model, progress)
        lm = load(
            path,
            threads=arguments.threads,
            activations=arguments.activations,
            guesses=given.get("guesses", False),
            draft=draft and find_weights(draft, progress),
            prefix_cache="guesses" in given,
            adapters={adapter: adapter} if adapter else None,
            quantize=arguments.quantize,
            progress=progress,
        )
    gc.freeze()
    return cast("LanguageModel | EmbeddingModel", lm)


def load_graph(arguments: Values, progress: Bars) -> Model:
    """The ONNX model. Raises RequestError for one of texts."""
    path = find_graph(arguments.model, progress, "assay run")
    return cast("Model", load(path, threads=arguments.threads, progress=progress))


@contextmanager
def writing(out: Path, hint: str, force: bool = False, name: str = "OUT") -> Iterator[None]:
    """`with writing(out, hint):` OUT is written, or Ctrl-C undoes it. Raises RequestError where it can't be,
    or, without `force`, is there already.
    """
    with interrupt.raises(), output.writing(out, name, replace=force, hint=hint):
        yield

"""The model that a command asks for."""

from __future__ import annotations

import argparse
import gc
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli import interrupt
from assay.cli.progress import Bars
from assay.errors import RequestError
from assay.hub.pull import resolve
from assay.load import load

if TYPE_CHECKING:
    from assay.llm.embedding_model import EmbeddingModel
    from assay.llm.language_model import LanguageModel


def find_model(name: str, progress: Bars) -> Path:
    """The model's file, fetched where it isn't here. Ctrl-C leaves nothing half-fetched behind."""
    with interrupt.raises():
        path = resolve(name, progress.download)
    progress.say("loading the model")
    return path


def load_model(
    arguments: argparse.Namespace, *, guesses: bool, draft: str | None = None, prefix_cache: bool = True
) -> LanguageModel:
    """The language model, loaded with progress bars. Raises RequestError for an embedder."""
    lm = load_any(arguments, guesses, draft, prefix_cache)
    if hasattr(lm, "embed"):
        raise RequestError("this model makes no text", place=arguments.model, hint="assay embed")
    return lm


def load_any(
    arguments: argparse.Namespace, guesses: bool = False, draft: str | None = None, prefix_cache: bool = True
) -> LanguageModel | EmbeddingModel:
    """A model, with progress bars. A command keeps it to the end, so the collector is spared it."""
    gc.disable()
    with Bars() as progress:
        lm = load(
            find_model(arguments.model, progress),
            threads=arguments.threads,
            activations=arguments.activations,
            guesses=guesses,
            draft=draft,
            prefix_cache=prefix_cache,
            quantize=arguments.quantize,
            progress=progress,
        )
    gc.freeze()
    gc.enable()
    return lm

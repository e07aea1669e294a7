"""The model that a command asks for."""

from __future__ import annotations

import argparse
import gc
from typing import TYPE_CHECKING

from assay.cli.progress import Bars
from assay.load import load

if TYPE_CHECKING:
    from assay.llm.language_model import LanguageModel


def load_model(arguments: argparse.Namespace) -> LanguageModel:
    """Load it, with progress bars. A command keeps its model to the end, so the collector is spared it."""
    gc.disable()
    with Bars() as progress:
        lm = load(
            arguments.model,
            threads=arguments.threads,
            activations=arguments.activations,
            progress=progress,
        )
    gc.freeze()
    gc.enable()
    return lm

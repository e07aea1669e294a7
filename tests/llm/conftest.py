from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest

import assay
from assay.llm.language_model import LanguageModel
from assay.llm.tokenizer import Tokenizer

Load = Callable[..., LanguageModel]


@pytest.fixture(scope="session")
def load(smollm2_path: Path) -> Load:
    """SmolLM2 by the options of assay.load, each loaded once. Without a prefix cache, unless it is asked for:
    what is computed again must be computed again.
    """
    models: dict[str, LanguageModel] = {}

    def get(**options: object) -> LanguageModel:
        key = json.dumps(options, sort_keys=True)
        if key not in models:
            chosen = {"threads": 2, "context": 2048, "prefix_cache": False, **options}
            models[key] = assay.load(smollm2_path, **chosen)  # type: ignore[arg-type]
        return models[key]

    return get


@pytest.fixture(scope="session")
def text() -> list[int]:
    """500 tokens of prose."""
    stored = np.load(Path(__file__).parents[1] / "golden" / "smollm2" / "logits.npz")
    tokens: list[int] = stored["tokens"].tolist()
    return tokens


@pytest.fixture(scope="session")
def smollm2_metadata(smollm2_path: Path) -> dict[str, object]:
    """The file's keys as the `gguf` package reads them."""
    fields = gguf.GGUFReader(str(smollm2_path)).fields
    return {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_metadata: dict[str, object]) -> Tokenizer:
    return Tokenizer.from_gguf(smollm2_metadata)

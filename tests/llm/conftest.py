from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from assay.llm.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def smollm2_metadata(smollm2_path: Path) -> dict[str, object]:
    """The file's keys as the `gguf` package reads them."""
    fields = gguf.GGUFReader(str(smollm2_path)).fields
    return {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}


@pytest.fixture(scope="session")
def smollm2_tokenizer(smollm2_metadata: dict[str, object]) -> Tokenizer:
    return Tokenizer.from_gguf(smollm2_metadata)

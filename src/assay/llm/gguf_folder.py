"""A Hugging Face folder as what a GGUF file has in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from assay.llm.gguf_vocabulary import tokenizer_keys
from assay.llm.source import open_source
from assay.models.gguf_contents import Contents, contents


@contextmanager
def open_as_gguf(path: Path) -> Iterator[Contents]:
    """The folder's weights as they are stored, under GGUF's names, and its keys, tokenizer and chat template
    with them. Raises FormatError for what such a file can't say.
    """
    with open_source(path) as source:
        made = contents(path, source.architecture, source.model, source.weights)
        tokenizer = source.tokenizer()
        keys = {**made.metadata, **tokenizer_keys(tokenizer, source.model.name)}
        if source.model.encoder:
            keys["tokenizer.ggml.token_type_count"] = source.model.token_types
        if source.template(tokenizer):
            keys["tokenizer.chat_template"] = source.chat_template() or ""
        yield replace(made, metadata=keys)

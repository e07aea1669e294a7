"""What a model is loaded from: a GGUF file, or a folder as Hugging Face publishes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from assay.errors import FormatError
from assay.formats.files import member
from assay.formats.gguf import GgufFile, open_gguf
from assay.formats.inventory import hold
from assay.formats.safetensors import open_safetensors
from assay.formats.strict_json import read_json
from assay.formats.tensors import TensorInfo
from assay.llm.folder_tokenizer import CONFIG_LIMIT, FolderTokenizer, chat_template
from assay.llm.template import ChatTemplate
from assay.llm.tokenizer import Tokenizer
from assay.models import architecture, pooling
from assay.models.config import Config
from assay.models.decoder import Decoder, weights
from assay.models.decoder_graph import computed
from assay.models.gguf_decoder import from_gguf
from assay.models.parts import Part, TensorFile, Weights, stored


class Source(Protocol):
    """A model's files, open. `tokenizer` and `template` take a while; weights are read from the mapping."""

    path: Path
    model: Decoder
    weights: Weights
    modules: dict[str, Part]
    """Where weights lie in a folder, whatever this is: what adapters are named after."""

    def tokenizer(self) -> Tokenizer: ...

    def template(self, tokenizer: Tokenizer) -> ChatTemplate | None: ...

    def release(self) -> None:
        """Give mapped pages back to the system."""


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """The model at `path`, its tensors held against its shape. Raises FormatError."""
    if path.is_dir():
        fields = read_json(member(path, "config.json"), CONFIG_LIMIT)
        with open_safetensors(path) as files, _naming(path):
            yield _Folder(path, files, Config(fields, f"{path} › config.json"))
    else:
        with open_gguf(path) as file, _naming(path):
            yield _Gguf(file)


class _Gguf:
    def __init__(self, file: GgufFile) -> None:
        self.path, self._file = file.path, file
        self.model, parts, found = from_gguf(file)
        self.weights = _held(file, found, self.model, parts, str(file.path))
        name = file.expect("general.architecture", str)
        self.modules = architecture.find(name, str(file.path)).parts(self.model)
        _check_tokens(file, self.model.vocabulary)
        self.release = file.release

    def tokenizer(self) -> Tokenizer:
        return Tokenizer.from_gguf(self._file.metadata)

    def template(self, tokenizer: Tokenizer) -> ChatTemplate | None:
        if "tokenizer.chat_template" not in self._file.metadata:
            return None
        return _template(self._file.expect("tokenizer.chat_template", str), tokenizer)


class _Files(TensorFile, Protocol):
    def release(self) -> None: ...


class _Folder:
    def __init__(self, path: Path, files: _Files, config: Config) -> None:
        self.path = path
        name = config.text("model_type").removesuffix("_text")
        kind = architecture.find(name, f"{path} › config.json › model_type")
        if config.has("quantization_config"):
            rule = "weights that are quantised in a way that isn't supported"
            raise config.error("quantization_config", "plain weights", "an object", rule)
        model = kind.from_config(config, path.resolve().name)
        self.model = replace(model, pooling=pooling.from_folder(path, model.hidden))
        found = {name: info for name, info in files.tensors.items() if not name.endswith(kind.ignored)}
        parts = self.modules = kind.parts(self.model)
        if not any(name.startswith(kind.prefix) for name in found):  # a file of the model without its head
            bare = {name: part.source.removeprefix(kind.prefix) for name, part in parts.items()}
            parts = {name: replace(part, source=bare[name]) for name, part in parts.items()}
        if self.model.tied:
            found.pop("lm_head.weight", None)  # some files hold the token table twice
        self.weights = _held(files, found, self.model, parts, str(path))
        self.release = files.release

    def tokenizer(self) -> Tokenizer:
        return FolderTokenizer(self.path, self.model.vocabulary).tokenizer()

    def template(self, tokenizer: Tokenizer) -> ChatTemplate | None:
        source = chat_template(self.path)
        return None if source is None else _template(source, tokenizer)


def _held(
    file: TensorFile, found: Mapping[str, TensorInfo], model: Decoder, parts: Mapping[str, Part], place: str
) -> Weights:
    wanted = weights(model)
    hold(found, stored(parts, wanted), place)
    return Weights(file, parts, wanted, computed(model))


def _template(source: str, tokenizer: Tokenizer) -> ChatTemplate:
    ids = (tokenizer.bos_id, tokenizer.eos_id)
    bos, eos = (tokenizer.decode([] if token is None else [token], skip_special=False) for token in ids)
    return ChatTemplate(source, bos, eos)


def _check_tokens(file: GgufFile, vocabulary: int) -> None:
    """The tokenizer has as many tokens as the embedding has rows."""
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, tuple) and len(tokens) != vocabulary:
        raise FormatError(
            "another number of tokens than the model has",
            place=f"{file.path} › key 'tokenizer.ggml.tokens'",
            want=f"{vocabulary:,}, the rows of 'token_embd.weight'",
            got=f"{len(tokens):,}",
        )


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors in what the file holds say which file it is, as those of the file itself do."""
    try:
        yield
    except FormatError as error:
        if not error.place.startswith(str(path)):
            error.at(str(path))
        raise

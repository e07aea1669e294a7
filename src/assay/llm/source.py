"""What a model is loaded from: a GGUF file, or a folder as Hugging Face publishes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import AssayError, FormatError
from assay.formats.fields import Config
from assay.formats.files import TensorFiles, member
from assay.formats.gguf import GgufFile, open_gguf
from assay.formats.safetensors import open_safetensors
from assay.formats.strict_json import read_json
from assay.formats.tensors import TensorInfo, hold
from assay.llm.folder_tokenizer import CONFIG_LIMIT, FolderTokenizer, chat_template
from assay.llm.template import ChatTemplate
from assay.llm.tokenizer import Tokenizer
from assay.models import architecture, pooling
from assay.models.decoder import Decoder, weights
from assay.models.decoder_graph import computed
from assay.models.gguf_decoder import from_gguf
from assay.models.parts import Part, Weights, stored

TEXT_IN = ("language_model.model.", "model.language_model.")
"""What begins the names of tensors for text beside those for images, in older files and in newer ones."""


@dataclass(frozen=True)
class Source:
    """A model's files, open. The tokenizer and the template take a while."""

    path: Path
    architecture: str
    model: Decoder
    weights: Weights
    modules: dict[str, Part]
    """Where weights lie in a folder, whatever this is: what adapters are named after."""
    tokenizer: Callable[[], Tokenizer]
    chat_template: Callable[[], str | None]
    """The template's text; None for none."""

    def template(self, tokenizer: Tokenizer) -> ChatTemplate | None:
        """The chat template for a tokenizer with such tokens at the ends of texts."""
        text, ids = self.chat_template(), (tokenizer.bos_id, tokenizer.eos_id)
        bos, eos = (tokenizer.decode([] if token is None else [token], skip_special=False) for token in ids)
        return None if text is None else ChatTemplate(text, bos, eos)


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """The model at `path`, its tensors held against its shape. Errors name the file, and its own tensors.
    Raises FormatError.
    """
    with (open_safetensors if path.is_dir() else open_gguf)(path) as file, _naming(path) as parts:
        source = _gguf(file) if isinstance(file, GgufFile) else _folder(path, file)
        parts.update(source.weights.parts)
        yield source


def _gguf(file: GgufFile) -> Source:
    model, parts, found = from_gguf(file)
    held = _held(file, found, model, parts)
    name, key = file.keys.text("general.architecture"), "tokenizer.chat_template"
    tokens = file.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, tuple) and len(tokens) != model.vocabulary:
        rule, want = "another number of tokens than the model has", f"{model.vocabulary:,}, the rows of"
        want, got = f"{want} 'token_embd.weight'", f"{len(tokens):,}"
        raise FormatError(rule, place=f"{file.path} › key 'tokenizer.ggml.tokens'", want=want, got=got)
    return Source(
        file.path,
        name,
        model,
        held,
        architecture.find(name, str(file.path)).layout.parts(model),
        lambda: Tokenizer.from_gguf(file.metadata),
        lambda: file.keys.text(key) if key in file.metadata else None,
    )


def _folder(path: Path, files: TensorFiles) -> Source:
    fields = read_json(member(path, "config.json"), CONFIG_LIMIT)
    config = Config(fields, f"{path} › config.json")
    name = config.text("model_type").removesuffix("_text")
    kind = architecture.find(name, f"{path} › config.json › model_type")
    if "quantization_config" in config:
        rule = "weights that are quantised in a way that isn't supported"
        raise config.error("quantization_config", "plain weights", "an object", rule)
    model = kind.from_config(config, path.resolve().name)
    model = replace(model, pooling=pooling.from_folder(path, model.hidden))
    if "text_config" in config and not kind.images:
        rule = "a model of several parts that isn't known"
        raise config.error("text_config", "a model of text alone", "an object", rule)
    ignored = kind.images if "text_config" in config else ()
    found = {
        name: info
        for name, info in files.tensors.items()
        if not (name.endswith(kind.ignored) or name.removeprefix(kind.prefix).startswith(ignored))
    }
    modules = parts = kind.layout.parts(model)
    prefixes = TEXT_IN if ignored else (kind.prefix,)  # there is none in a file of a model without its head
    prefix = next((each for each in prefixes if any(name.startswith(each) for name in found)), "")
    if prefix != kind.prefix:
        parts = {
            name: replace(part, source=re.sub(f"^{re.escape(kind.prefix)}", prefix, part.source))
            for name, part in parts.items()
        }
    if model.tied:
        found.pop("lm_head.weight", None)  # some files hold the token table twice
    return Source(
        path,
        name,
        model,
        _held(files, found, model, parts),
        modules,
        lambda: FolderTokenizer(path, model.vocabulary).tokenizer(),
        lambda: chat_template(path),
    )


def _held(
    file: TensorFiles, found: Mapping[str, TensorInfo], model: Decoder, parts: Mapping[str, Part]
) -> Weights:
    wanted = weights(model)
    hold(found, stored(parts, wanted), str(file.path))
    return Weights(file, parts, wanted, computed(model))


@contextmanager
def _naming(path: Path) -> Iterator[dict[str, Part]]:
    """Errors in what the file holds say which file it is, as those of the file itself do, and call tensors as
    it does: the weights of a model that lie in these parts.
    """
    parts: dict[str, Part] = {}
    try:
        yield parts
    except AssayError as error:
        names = r"(?<=tensor )('?)([\w.]+)\1"
        error.place = re.sub(
            names, lambda at: at[1] + (parts[at[2]].source if at[2] in parts else at[2]) + at[1], error.place
        )
        if isinstance(error, FormatError) and not error.place.startswith(str(path)):
            error.at(str(path))
        raise

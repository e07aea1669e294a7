"""How the vectors of a text's tokens become one, as sentence-transformers says it beside a model."""

from __future__ import annotations

import os
from pathlib import Path

from assay.errors import FormatError
from assay.formats.fields import Config
from assay.formats.files import member
from assay.formats.strict_json import read_json, read_value
from assay.models.decoder import Pooling

KINDS = ("mean", "cls", "last")
LIMIT = 1 << 20  # bytes of a file
MODES = dict(zip(("mean", "cls", "lasttoken"), KINDS, strict=True)) | {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
"""What files call the kinds; older ones have a flag for each."""


def from_folder(folder: Path, hidden: int) -> Pooling:
    """What the folder's modules say; all that they do is known, or refused. Raises FormatError."""
    if not os.path.lexists(folder / "modules.json"):
        return Pooling()
    found = read_value(member(folder, "modules.json"), LIMIT)
    modules = [each if isinstance(each, dict) else {} for each in found] if isinstance(found, list) else []
    kinds = [str(module.get("type")).rpartition(".")[2] for module in modules]
    known = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
    if kinds not in known or modules[0].get("path") != "":
        rule, want = "modules that aren't known", "Transformer (path ''), Pooling and perhaps Normalize"
        raise FormatError(rule, place=f"{folder} › modules.json", want=want, got=str(found)[:200])
    path = member(folder, str(modules[1].get("path")))
    fields = read_json(member(path, "config.json"), LIMIT)
    config = Config(fields, f"{path} › config.json")
    for name in ("word_embedding_dimension", "embedding_dimension"):
        config.neutral(name, hidden)
    config.neutral("include_prompt", True)
    said = {name: value for name, value in fields.items() if name.startswith("pooling_mode") and value}
    mode = " and ".join(str(value) if name == "pooling_mode" else name for name, value in said.items())
    if mode not in MODES:
        raise config.error("pooling_mode", "mean, cls or lasttoken", mode, "a pooling that isn't supported")
    prompts = _optional(folder, "config_sentence_transformers.json")
    if "default_prompt_name" in prompts:
        raise prompts.error("default_prompt_name", "none", prompts.text("default_prompt_name"))
    texts = _optional(folder, "sentence_bert_config.json")
    texts.neutral("do_lower_case", False)
    return Pooling(MODES[mode], len(kinds) == 3, texts.integer("max_seq_length", 1, 1 << 31, 0))


def _optional(folder: Path, name: str) -> Config:
    there = os.path.lexists(folder / name)
    return Config(read_json(member(folder, name), LIMIT) if there else {}, f"{folder} › {name}")

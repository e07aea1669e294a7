"""GGUF files of all architectures: computed as llama.cpp and transformers do, or refused by name."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import assay
from assay.errors import FormatError, RequestError
from assay.formats.gguf import open_gguf
from assay.formats.gguf_types import MetadataValue
from assay.formats.gguf_writer import Row, write_gguf
from assay.formats.quant import quantise
from assay.llm import loader
from assay.llm.language_model import LanguageModel
from assay.llm.options import Options
from assay.llm.source import open_source
from assay.models.decoder import Decoder, weights
from assay.tensor.dtype import F32, Q8_0
from llm.converted import GOLDEN, LENGTH, MODELS, POSITIONS, write

Changes: TypeAlias = "Mapping[str, MetadataValue | np.generic | None]"


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_llama_cpp_and_of_transformers(tmp_path: Path, name: str) -> None:
    """All compute in float32, and differ in the orders of sums: 1e-5 of the greatest magnitude is ten times
    what that makes. But llama.cpp looks gelu up in a table of float16 by a float16: a relative 2⁻¹¹ twice, in
    each layer. Transformers' answers, which have no such error, are held to 1e-4 as everywhere.
    """
    model = MODELS[name]
    tokens = write(tmp_path / "m.gguf", name)
    with assay.load(tmp_path / "m.gguf", threads=2, activations="float32", cache_tokens=1024) as lm:
        found = lm.logits(tokens if model.alike else tokens[:LENGTH])
    expected = np.load(GOLDEN / "gguf" / "llama_cpp.npz")[name]
    table = model.golden in ("gemma2", "gemma3", "gpt2")
    bound = (4 * 2.0**-11 if table else 1e-5) * np.abs(expected).max()
    assert np.abs(found[list(POSITIONS)] - expected).max() <= bound
    positions, output = (np.load(GOLDEN / model.golden / f"{file}.npy") for file in ("positions", "output"))
    alike = positions < model.alike
    error = np.abs(found[positions[alike]] - output[alike])
    assert error.max(initial=0.0) <= 1e-4 * np.abs(output).max()


@cache
def content(name: str) -> tuple[dict[str, MetadataValue], list[Row]]:
    """The file's keys and tensors."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "m.gguf", name)
        with open_gguf(Path(folder) / "m.gguf") as file:
            tensors = file.tensors.values()
            rows: list[Row] = [
                (each.name, each.dtype, each.shape, file.raw(each.name).copy()) for each in tensors
            ]
            return dict(file.metadata), rows


def changed(path: Path, name: str, changes: Changes, drop: str = " ") -> Path:
    """The file with some keys changed (None: left out), and without the tensors whose names end so."""
    metadata, rows = content(name)
    kept = {key: value for key, value in {**metadata, **changes}.items() if value is not None}
    write_gguf(path, kept, [row for row in rows if not row[0].endswith(drop)])
    return path


def quantised(path: Path, name: str) -> LanguageModel:
    """The file with all maps in blocks, loaded."""
    metadata, rows = content(name)
    blocks: list[Row] = []
    for each, dtype, shape, raw in rows:
        in_blocks = len(shape) == 2 and shape[1] % 32 == 0 and "embd" not in each
        values = np.frombuffer(raw, np.float32).reshape(shape)
        blocks.append((each, Q8_0, shape, quantise(values, Q8_0)) if in_blocks else (each, dtype, shape, raw))
    write_gguf(path, metadata, blocks)
    return assay.load(path, threads=2, cache_tokens=256)


def test_blocks_side_by_side_are_the_same_blocks(tmp_path: Path) -> None:
    """Rows are cut out of a wider tensor whole, so that no bit differs."""
    tokens = np.load(GOLDEN / "qwen2" / "tokens.npy")[:40].tolist()
    with (
        quantised(tmp_path / "m.gguf", "qwen2") as alone,
        quantised(tmp_path / "n.gguf", "qwen2-side-by-side") as fused,
    ):
        assert (alone.logits(tokens) == fused.logits(tokens)).all()


@pytest.mark.parametrize("name", ["phi3-long", "gpt2", "gemma3", "llama-biases"])
def test_blocks_answer_nearly_as_numbers_do(tmp_path: Path, name: str) -> None:
    """8 bits for weights and activations: each a relative 2⁻⁸, in two to six layers of some seven maps."""
    expected = np.load(GOLDEN / "gguf" / "llama_cpp.npz")[name]
    tokens = np.load(GOLDEN / MODELS[name].golden / "tokens.npy")[:LENGTH].tolist()
    with quantised(tmp_path / "m.gguf", name) as model:
        found = model.logits(tokens)[list(POSITIONS)]
    assert np.abs(found - expected).max() <= 0.1 * np.abs(expected).max()


def shape(path: Path) -> Decoder:
    with open_source(path) as source:
        return source.model


COMMON: Changes = {
    "general.type": "model", "general.quantization_version": 2, "general.file_type": 15,
    "general.license": "mit", "general.tags": ("a", "b"), "general.base_model.count": 1,
    "general.size_label": "8B",
    "general.parameter_count": 4299915632, "quantize.imatrix.file": "imatrix.dat",
    "quantize.imatrix.entries_count": 224, "tokenizer.ggml.padding_token_id": 319,
    "tokenizer.ggml.add_bos_token": False, "tokenizer.ggml.add_space_prefix": False,
}  # fmt: skip
PUBLISHED: dict[str, Changes] = {
    # What files that people publish have beside the keys that the converters above write.
    "llama": {
        "llama.tensor_data_layout": "Meta AI original pth", "llama.attention.key_length": 16,
        "llama.attention.value_length": 16, "llama.rope.scaling.finetuned": True,
        "general.source.hugging_face.repository": "meta-llama/Llama-2-7b",
    },
    "llama-wide": {"general.languages": ("en",), "general.finetune": "Instruct"},
    "mistral": {"llama.expert_count": 0, "llama.expert_used_count": 0},
    "qwen2": {"general.license.link": "https://example.org"},
    "qwen3": {"general.basename": "Qwen3"},
    "gemma2": {"gemma2.rope.dimension_count": 16},
    "gemma3": {
        "gemma3.mm.tokens_per_image": 256, "gemma3.vision.block_count": 27,
        "gemma3.vision.attention.layer_norm_epsilon": 1e-6, "gemma3.rope.freq_base_swa": 10000.0,
        "gemma3.attention.sliding_window_pattern": 6,
    },
    "phi3": {"phi3.rope.scaling.attn_factor": 1.0},
    "phi3-long": {"phi3.rope.scaling.type": "longrope"},
    "gpt2": {"gpt2.vocab_size": 320},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_keys_change_nothing(tmp_path: Path, name: str) -> None:
    write(tmp_path / "m.gguf", name)
    assert shape(changed(tmp_path / "n.gguf", name, {**COMMON, **PUBLISHED[name]})) == shape(
        tmp_path / "m.gguf"
    )


@pytest.mark.parametrize(
    ("name", "changes", "drop", "at"),
    [
        ("qwen2", {}, "1.attn_k.bias", "tensor 'blk.1.attn_k.bias'"),
        ("qwen2-side-by-side", {}, "attn_qkv.bias", "tensor 'blk.0.attn_qkv.bias'"),
        ("llama-biases", {}, "1.ffn_up.bias", "tensor 'blk.1.ffn_up.bias'"),
        ("llama-biases", {}, "0.ffn_up.bias", "tensor 'blk.1.ffn_up.bias'"),
        ("qwen3", {}, "0.attn_q_norm.weight", "tensor 'blk.0.attn_q_norm.weight'"),
        ("gemma2", {}, "0.post_ffw_norm.weight", "tensor 'blk.0.post_ffw_norm.weight'"),
        ("phi3", {}, "1.attn_qkv.weight", "tensor 'blk.1.attn_qkv.weight'"),
        ("phi3", {}, "0.ffn_up.weight", "tensor 'blk.0.ffn_up.weight'"),
        ("phi3-long", {}, "factors_short.weight", "tensor 'rope_factors_short.weight'"),
        ("phi3-long", {}, "factors_long.weight", "tensor 'rope_factors_short.weight'"),
        ("phi3", {"phi3.rope.scaling.type": "longrope"}, " ", "tensor 'rope_factors_long.weight'"),
        ("gpt2", {}, "position_embd.weight", "tensor 'position_embd.weight'"),
        ("gpt2", {"gpt2.rope.freq_base": 10000.0}, " ", "key 'gpt2.rope.freq_base'"),
        ("qwen2", {"qwen2.attention.sliding_window": 4096}, " ", "key 'qwen2.attention.sliding_window'"),
        ("qwen2", {"qwen2.pooling_type": 4}, " ", "key 'qwen2.pooling_type'"),
        ("llama", {"llama.rope.scaling.yarn_beta_fast": 4.0}, " ", "key 'llama.rope.scaling.yarn_beta_fast'"),
        ("llama", {"llama.attention.scale": 0.5}, " ", "key 'llama.attention.scale'"),
        ("gemma3", {"gemma3.rope.local.freq_base": 1e4}, " ", "key 'gemma3.rope.local.freq_base'"),
        ("gemma2", {"gemma2.attention.sliding_window_pattern": 0}, " ", "sliding_window_pattern'"),
        (
            "gemma2",
            {"gemma2.attention.head_count_kv": np.array([2, 2], np.int32)},
            " ",
            "key 'gemma2.attention.head_count_kv'",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, name: str, changes: Changes, drop: str, at: str) -> None:
    path = changed(tmp_path / "m.gguf", name, changes, drop)
    with pytest.raises(FormatError) as caught:
        shape(path)
    assert caught.value.place.startswith(f"{path} › ") and caught.value.place.endswith(at)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.inf, math.nan])
def test_divisors_are_positive_and_finite(tmp_path: Path, bad: float) -> None:
    metadata, rows = content("llama-wide")
    divisors = np.array([*[1.0] * 31, bad], np.float32).view(np.uint8)
    changed_rows = [(*row[:3], divisors if row[0] == "rope_freqs.weight" else row[3]) for row in rows]
    write_gguf(tmp_path / "m.gguf", metadata, changed_rows)
    with pytest.raises(FormatError, match="positive, finite numbers") as caught:
        shape(tmp_path / "m.gguf")
    assert caught.value.place.endswith("tensor 'rope_freqs.weight'")


def test_the_context_is_the_one_that_factors_are_for(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf", "phi3-long")
    assert shape(tmp_path / "m.gguf").context == 256
    with pytest.raises(RequestError, match="a context that is too long"):
        assay.load(tmp_path / "m.gguf", threads=1, context=257)
    linear: Changes = {"llama.rope.scaling.original_context_length": 64}
    assert shape(changed(tmp_path / "n.gguf", "llama-linear", linear)).context == 4 * 64


@pytest.mark.parametrize(("name", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_the_largest_gemma_has_a_scale_of_its_own(tmp_path: Path, name: str, layers: int) -> None:
    """By the model's width in heads, not the heads' size: no key says so, but llama.cpp does."""
    sizes = {f"{name}.attention.key_length": 32, f"{name}.attention.value_length": 32}
    tiny = replace(shape(changed(tmp_path / "m.gguf", name, {})), head_dim=32)
    for count, scalar in ((layers - 1, 32), (layers, tiny.hidden // tiny.heads), (layers + 1, 32)):
        shapes = {name: wanted.shape for name, wanted in weights(replace(tiny, layers=count)).items()}
        rows = [(name, F32, shape, bytes(4 * math.prod(shape))) for name, shape in shapes.items()]
        write_gguf(tmp_path / "n.gguf", {**content(name)[0], **sizes, f"{name}.block_count": count}, rows)
        assert shape(tmp_path / "n.gguf").attention_scale == np.float32(1) / np.sqrt(np.float32(scalar))


VALUES = st.one_of(
    st.none(), st.booleans(), st.text(max_size=3), st.sampled_from(["none", "linear", "longrope", "yarn"]),
    st.integers(-2, 70), st.sampled_from([2**31, 2**32, 2**64 - 1]), st.floats(), st.floats(width=32),
)  # fmt: skip


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data(), name=st.sampled_from(sorted(PUBLISHED)))
def test_whatever_keys_say_is_refused_or_makes_a_graph(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    keys = {key for key in {**content(name)[0], **PUBLISHED[name]} if not key.startswith(("general", "tok"))}
    named = data.draw(st.lists(st.sampled_from(sorted(keys)), min_size=1, max_size=3, unique=True))
    changed(path, name, {key: data.draw(VALUES) for key in named})
    try:
        with open_source(path) as source:
            loader.design(source, Options("int8", None, 256, None, 1))
    except FormatError as error:
        assert error.place.startswith(f"{path} › ") and error.rule

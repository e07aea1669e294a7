"""What a config.json may say in several ways, and what it may not."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import FormatError
from assay.formats.fields import Config
from assay.formats.strict_json import JsonValue
from assay.llm.source import open_source
from assay.models.architecture import find
from assay.models.decoder import Decoder, weights
from assay.models.decoder_graph import computed, graph
from assay.ops import contract
from assay.tensor.dtype import F32
from llm.converted import GOLDEN, write

Fields = dict[str, JsonValue]
KINDS = ("full_attention", "sliding_attention")


def golden(name: str) -> Fields:
    fields: Fields = json.loads((GOLDEN / name / "config.json").read_text())
    return fields


def shape(name: str, fields: Fields) -> Decoder:
    return find(name, "here").from_config(Config(fields, "here"), "m")


def test_gemma3_as_older_files_say_it() -> None:
    """A base for each kind of layers, stretching beside them, a period instead of a list of layers."""
    fields = golden("gemma3")
    expected = shape("gemma3", fields)
    assert [expected.window(layer) for layer in range(6)] == [50] * 5 + [0]
    assert [(rope.base, rope.linear) for rope in expected.ropes if rope] == [(1e4, 1.0)] * 5 + [(1e6, 8.0)]
    del fields["rope_parameters"], fields["layer_types"], fields["hidden_activation"]
    stretched: Fields = {"rope_scaling": {"rope_type": "linear", "factor": 8.0}}
    assert shape("gemma3", {**fields, **stretched}) == expected
    said: Fields = {"rope_theta": 1e6, "rope_local_base_freq": 1e4, "sliding_window_pattern": 6}
    assert shape("gemma3", {**fields, **stretched, **said}) == expected


def long(**rules: JsonValue) -> Fields:
    """The golden phi3 with factors for short and for long contexts, as the GGUF file "phi3-long" has them."""
    factors: dict[str, JsonValue] = {
        "rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
        "short_factor": np.linspace(1.0, 2.5, 6).tolist(), "long_factor": np.linspace(3.0, 40.0, 6).tolist(),
    }  # fmt: skip
    return {
        **golden("phi3"),
        "original_max_position_embeddings": 256,
        "rope_parameters": {**factors, **rules},
    }


def test_factors_for_short_and_long_contexts_are_those_of_a_gguf_file(tmp_path: Path) -> None:
    """Which llama.cpp agrees with."""
    write(tmp_path / "m.gguf", "phi3-long")
    with open_source(tmp_path / "m.gguf") as source:
        found = replace(source.model, name="m", windows=())
    assert shape("phi3", long(attention_factor=1.25)) == found


@pytest.mark.parametrize(
    ("rules", "trained", "factor"), [({}, 256, 2), ({"factor": 32.0}, 256, 32), ({}, 4096, 1)]
)
def test_how_long_rotated_elements_become(rules: Fields, trained: int, factor: int) -> None:
    """√(1 + ln factor / ln trained) unless it is said; the factor is that of the contexts unless it is."""
    rope = shape("phi3", {**long(**rules), "original_max_position_embeddings": trained}).ropes[0]
    assert rope
    assert rope.magnitude == np.float32(math.sqrt(1 + math.log(factor) / math.log(trained)))


@pytest.mark.parametrize(
    ("name", "fields", "at"),
    [
        ("gemma3", {"text_config": {}}, "text_config › hidden_size"),
        ("gemma3", {"text_config": []}, "text_config"),
        ("gemma3", {"text_config": {}, "tie_word_embeddings": False}, "tie_word_embeddings"),
        ("gemma3", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma3", {"rope_parameters": {"rope_theta": 1e6}}, "full_attention"),
        ("gemma3", {"rope_parameters": None, "rope_scaling": {"type": "yarn"}}, "rope_scaling › type"),
        ("gemma3", {"rope_parameters": {kind: {"type": "su"} for kind in KINDS}}, "full_attention › type"),
        ("gemma3", {"layer_types": None, "sliding_window_pattern": 0}, "sliding_window_pattern"),
        ("phi3", long(short_factor=[1.0]), "short_factor"),
        ("phi3", long(long_factor=[1.0] * 5 + [True]), "long_factor › 5"),
        ("phi3", long(short_factor=[1.0] * 5 + [10**400]), "short_factor › 5"),
        ("phi3", long(short_factor=[0.0] * 6), "short_factor › 0"),
        ("phi3", long(short_factor=None), "short_factor"),
        ("phi3", {**long(), "original_max_position_embeddings": 1}, "original_max_position_embeddings"),
        ("phi3", long(attention_factor=0), "attention_factor"),
        ("llama", {"num_hidden_layers": 5000}, "num_hidden_layers"),
        ("qwen2", {"num_attention_heads": 3, "num_key_value_heads": 3}, "num_attention_heads"),
        ("gpt2", {"n_head": 3}, "n_head"),
        ("gpt2", {"n_embd": 60}, "n_head"),
    ],
)  # fmt: skip
def test_what_is_refused(name: str, fields: Fields, at: str) -> None:
    with pytest.raises(FormatError) as caught:
        shape(name, {**golden(name), **fields})
    assert caught.value.place.endswith(f" › {at}")


@pytest.mark.parametrize("name", ["mistral", "qwen2", "qwen3"])
def test_windows_that_no_layer_has_are_none(name: str) -> None:
    """So that the shape is that of a file which says nothing of them."""
    fields = golden(name)
    layers = fields["num_hidden_layers"]
    said = {"use_sliding_window": True, "sliding_window": 8}
    full = shape(name, {**fields, **said, "layer_types": ["full_attention"] * layers})
    some = shape(name, {**fields, **said, "layer_types": ["sliding_attention"] * layers})
    assert full.windows == () and some.windows == (8,) * layers


VALUES = st.one_of(
    st.none(), st.booleans(), st.text(max_size=3), st.integers(-2, 70), st.floats(),
    st.sampled_from([10**400, 2**31, 2**63, [], {}, [1.0], "linear", "longrope", "llama3", "gelu", "silu"]),
)  # fmt: skip
NAMES = ("llama-wide", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2")


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(data=st.data(), name=st.sampled_from(NAMES), nested=st.booleans())
def test_whatever_fields_say_is_refused_or_makes_a_graph(
    data: st.DataObject, name: str, nested: bool
) -> None:
    fields = long() if name == "phi3" else golden(name)
    rules = fields.get("rope_parameters")
    target = rules if nested and isinstance(rules, dict) else fields
    for key in data.draw(st.lists(st.sampled_from(sorted(target)), min_size=1, max_size=3, unique=True)):
        target[key] = data.draw(VALUES)
    try:
        model = shape(name.removesuffix("-wide"), fields)
    except FormatError as error:
        assert error.place.startswith("here › ") and error.rule
        return
    if model.layers <= 8:  # of more the graph is the same, and takes long
        contract.require(graph(model, dict.fromkeys(weights(model), F32), F32, 4, 4))
        computed(model)

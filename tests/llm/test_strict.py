"""Files that don't hold together are refused by name, and whatever a file says, it loads or is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import assay
from assay.compiler.lower import quantize_activations
from assay.errors import ContractError, FormatError, PrecisionOverflow
from assay.formats.gguf import open_gguf
from assay.formats.gguf_types import MetadataValue
from assay.graph.graph import Graph
from assay.llm import loader
from assay.llm.source import open_source
from assay.models.decoder import Decoder, weights
from assay.models.rope import Rope
from assay.tensor.dtype import F32, Q4_0, Q8_0, DType
from llm import tiny

Changes: TypeAlias = "Mapping[str, MetadataValue | np.generic | None]"
Q = "blk.0.attn_q.weight"


def refused(path: Path, changes: Changes | None = None, tensors: tiny.Tensors | None = None) -> FormatError:
    tiny.write(path / "m.gguf", changes, tensors)
    with pytest.raises(FormatError) as caught:
        assay.load(path / "m.gguf", threads=1)
    assert caught.value.place.startswith(f"{path / 'm.gguf'} › ")
    return caught.value


def with_tensors(changes: Mapping[str, tuple[DType, tuple[int, ...]] | None]) -> tiny.Tensors:
    found = tiny.shapes() | {name: kind for name, kind in changes.items() if kind}
    return {name: kind for name, kind in found.items() if name not in changes or changes[name]}


def test_the_file_as_it_is_loads_and_answers(tmp_path: Path) -> None:
    lm = assay.load(tiny.write(tmp_path / "m.gguf"), threads=1)
    assert len(lm.generate("abc", max_tokens=3, temperature=1.0, seed=1).tokens) <= 3
    assert np.isfinite(lm.logits([3, 4])).all()


# Keys -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "want"),
    [
        ("block_count", 0, "an integer from 1 to 4096"),
        ("block_count", 3, "at most 2, as many as there are tensors of"),
        ("block_count", 2**63, "an integer from 1 to 4096"),
        ("block_count", 2.0, "an integer from 1 to 4096"),
        ("embedding_length", 0, "an integer from 1 to 2147483647"),
        ("feed_forward_length", -1, "an integer from 1 to 2147483647"),
        ("attention.head_count", 0, "an integer from 1 to 2147483647"),
        ("attention.head_count", 3, "a divisor of the embedding's 32"),
        ("attention.head_count", 4, "heads of a multiple of 16 elements, at most 256"),
        ("attention.head_count", True, "an integer from 1 to 2147483647"),
        ("attention.head_count_kv", 0, "an integer from 1 to 2147483647"),
        ("attention.head_count_kv", 3, "a divisor of 2 query heads"),
        ("attention.key_length", 0, "an integer from 1 to 2147483647"),
        ("attention.key_length", 20, "heads of a multiple of 16 elements, at most 256"),
        ("attention.key_length", 272, "heads of a multiple of 16 elements, at most 256"),
        ("attention.value_length", 32, "16"),
        ("attention.causal", False, "True"),
        ("rope.dimension_count", 0, "an integer from 2 to 16"),
        ("rope.dimension_count", 18, "an integer from 2 to 16"),
        ("rope.dimension_count", 7, "an even number: pairs are rotated"),
        ("rope.freq_base", 0.0, "a number from 1 to 1.70141e+38"),
        ("rope.freq_base", -10000.0, "a number from 1 to 1.70141e+38"),
        ("rope.freq_base", math.inf, "a number from 1 to 1.70141e+38"),
        ("rope.freq_base", math.nan, "a number from 1 to 1.70141e+38"),
        ("rope.freq_base", 1e300, "a number from 1 to 1.70141e+38"),
        ("rope.freq_base", 10000, "a number from 1 to 1.70141e+38"),
        ("rope.scaling.type", "yarn", "none or linear or longrope"),
        ("rope.scaling.factor", 0.5, "a number from 1 to 1.04858e+06"),
        ("rope.scale_linear", math.inf, "a number from 1 to 1.04858e+06"),
        ("rope.scaling.attn_factor", 0.0, "a number from 9.53674e-07 to 1.04858e+06"),
        ("rope.scaling.original_context_length", 1, "an integer from 2 to 1048576"),
        ("context_length", 1, "an integer from 2 to 1048576"),
        ("context_length", 2**21, "an integer from 2 to 1048576"),
        ("attention.layer_norm_rms_epsilon", 0.0, "a number from 1.17549e-38 to 1"),
        ("attention.layer_norm_rms_epsilon", math.nan, "a number from 1.17549e-38 to 1"),
        ("attention.layer_norm_rms_epsilon", 2.0, "a number from 1.17549e-38 to 1"),
        ("vocab_size", 31, "32"),
        ("expert_count", 8, "0"),
        ("expert_used_count", 2, "0"),
        ("tensor_data_layout", "another", "Meta AI original pth"),
    ],
)
def test_a_key_out_of_range(tmp_path: Path, key: str, value: MetadataValue, want: str) -> None:
    error = refused(tmp_path, {f"llama.{key}": value})
    assert error.place.endswith(f" › key 'llama.{key}'")
    assert error.want == want


def test_a_key_that_is_missing(tmp_path: Path) -> None:
    for name in ("block_count", "context_length", "embedding_length", "attention.head_count"):
        error = refused(tmp_path, {f"llama.{name}": None})
        assert (error.rule, error.place.split(" › ")[1]) == ("a key is missing", f"key 'llama.{name}'")


def test_keys_that_change_nothing_may_be_there(tmp_path: Path) -> None:
    neutral: Changes = {
        "llama.vocab_size": len(tiny.TOKENS), "llama.attention.key_length": 16,
        "llama.attention.value_length": 16, "llama.attention.causal": True, "llama.rope.scaling.type": "none",
        "llama.rope.scaling.factor": 1.0, "llama.rope.scale_linear": 1.0, "llama.expert_count": 0,
        "llama.expert_used_count": 0, "llama.tensor_data_layout": "Meta AI original pth",
    }  # fmt: skip
    lm = assay.load(tiny.write(tmp_path / "m.gguf", neutral), threads=1)
    same = assay.load(tiny.write(tmp_path / "n.gguf"), threads=1)
    assert (lm.logits([5, 6]) == same.logits([5, 6])).all()


def test_a_key_that_is_not_known_may_change_everything(tmp_path: Path) -> None:
    error = refused(tmp_path, {"llama.rope.scaling.typ": "linear"})
    assert (error.rule, error.got) == ("a key that isn't known", "'llama.rope.scaling.typ'")
    assert error.hint == "near it: 'llama.rope.scaling.type'"
    error = refused(tmp_path, {"llama.attention.sliding_window": 4096})
    assert error.got == "'llama.attention.sliding_window'"


def test_the_tokenizer_has_a_token_for_each_row(tmp_path: Path) -> None:
    for tokens in (tiny.TOKENS[:-1], (*tiny.TOKENS, "ba")):
        kinds = np.array([3, 3, 3, *[1] * (len(tokens) - 3)], np.int32)
        changes: Changes = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": kinds}
        error = refused(tmp_path, {**changes, "tokenizer.ggml.merges": ()})
        assert error.place.endswith(" › key 'tokenizer.ggml.tokens'")
        assert (error.want, error.got) == ("32, the rows of 'token_embd.weight'", str(len(tokens)))


# Tensors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in tiny.shapes() if name != "token_embd.weight"])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    error = refused(tmp_path, tensors=with_tensors({name: None}))
    assert error.rule == "a tensor is missing"
    assert error.place.endswith(f" › tensor '{name}'")
    assert error.want == str(list(tiny.shapes()[name][1]))


def test_many_missing_tensors_are_counted(tmp_path: Path) -> None:
    first = {name: kind for name, kind in tiny.shapes().items() if name.startswith("token")}
    error = refused(tmp_path, {"llama.block_count": 1}, {**first, "blk.0.x": (F32, (1,))})
    assert error.got == "nothing; 10 such tensors"
    error = refused(tmp_path, tensors={"other": (F32, (1,))})
    assert error.place.endswith(" › tensor 'token_embd.weight'")


def test_a_tensor_under_another_name_is_pointed_at(tmp_path: Path) -> None:
    error = refused(tmp_path, tensors=with_tensors({Q: None, "blk.0.attn_qq.weight": tiny.shapes()[Q]}))
    assert error.place.endswith(f" › tensor '{Q}'")
    assert error.hint == "near it: 'blk.0.attn_qq.weight'"


@pytest.mark.parametrize(
    "name",
    ["rope_factors_short.weight", "blk.1.attn_q.bias", "blk.0.attn_norm.bias", "rope_frequencies", "blk.2.x"],
)
def test_a_surplus_tensor_is_named(tmp_path: Path, name: str) -> None:
    """Left out, it would make the answers wrong: scaled frequencies, biases, a block of its own."""
    error = refused(tmp_path, tensors=with_tensors({name: (F32, (16,))}))
    assert error.rule == "a tensor that the model doesn't use"
    assert error.place.endswith(f" › tensor '{name}'")
    assert error.got == "float32[16]"


def test_divisors_of_frequencies(tmp_path: Path) -> None:
    """Of the right shape and positive; and those of a context that isn't used are held to it, too."""
    for name in ("rope_freqs.weight", "rope_factors_long.weight"):
        error = refused(tmp_path, tensors=with_tensors({name: (F32, (16,))}))
        assert error.place.endswith(f" › tensor '{name}'")
        assert (error.want, error.got) == ("[8]", "[16]")
    error = refused(tmp_path, tensors=with_tensors({"rope_freqs.weight": (F32, (8,))}))  # some are negative
    assert (error.rule, error.want) == ("a number is out of range", "positive, finite numbers")


def test_without_scaling_there_is_no_factor(tmp_path: Path) -> None:
    error = refused(tmp_path, {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 2.0})
    assert (error.place.split(" › ")[1], error.want) == (
        "key 'llama.rope.scaling.factor'",
        "a number from 1 to 1",
    )


@pytest.mark.parametrize(("name", "near"), [("lama", "llama"), ("gpt", "gpt2"), ("mistral", ""), ("", "")])
def test_an_architecture_that_is_not_known(tmp_path: Path, name: str, near: str) -> None:
    error = refused(tmp_path, {"general.architecture": name})
    assert (error.rule, error.got) == ("an architecture that isn't known", repr(name))
    assert error.place.endswith(" › key 'general.architecture'")
    assert error.hint == (f"did you mean {near}?" if near else "")


def test_blocks_that_are_not_counted_are_surplus(tmp_path: Path) -> None:
    error = refused(tmp_path, {"llama.block_count": 1})
    assert error.place.endswith(" › tensor 'blk.1.attn_norm.weight'")
    assert error.got == "float32[32]; 9 such tensors"


@pytest.mark.parametrize("name", tiny.shapes())
def test_a_wrong_shape_is_told_with_the_right_one(tmp_path: Path, name: str) -> None:
    dtype, shape = tiny.shapes()[name]
    if name == "token_embd.weight":
        wrong = [(*shape[:-1], shape[-1] + 32)]  # its rows are the vocabulary: see the tokenizer
    elif len(shape) == 1:
        wrong = [(31,), (33,), (1, 32), (32, 1)]
    else:
        wrong = [(shape[0], 4 * shape[1]), (shape[0] - 1, shape[1]), (1, *shape), (shape[0] * shape[1],)]
    for other in wrong:
        error = refused(tmp_path, tensors=with_tensors({name: (dtype, other)}))
        assert error.rule == "a tensor has another shape"
        assert error.place.endswith(f" › tensor '{name}'")
        assert (error.want, error.got) == (str(list(shape)), str(list(other)))


def test_rows_that_are_not_whole_blocks(tmp_path: Path) -> None:
    """Of a model whose K no block divides, the maps can't be quantised."""
    with open_source(tiny.write(tmp_path / "m.gguf")) as source:
        model = replace(source.model, hidden=48, head_dim=16, heads=3, kv_heads=1)
    kinds: tiny.Tensors = {name: (F32, wanted.shape) for name, wanted in weights(model).items()}
    keys: Changes = {
        "llama.embedding_length": 48, "llama.attention.head_count": 3, "llama.attention.head_count_kv": 1
    }  # fmt: skip
    assert np.isfinite(assay.load(tiny.write(tmp_path / "f.gguf", keys, kinds), threads=1).logits([4])).all()
    kinds[Q] = (Q4_0, (48, 32))
    assert refused(tmp_path, keys, kinds).rule == "a tensor has another shape"


def test_a_norm_in_another_type(tmp_path: Path) -> None:
    error = refused(tmp_path, tensors=with_tensors({"output_norm.weight": (Q8_0, (32,))}))
    assert error.rule == "a tensor has another type"
    assert (error.want, error.got) == ("float32 or float16 or bfloat16", "q8_0")


def test_an_output_map_of_its_own(tmp_path: Path) -> None:
    """A model with one isn't tied, and it is held to its shape, too."""
    tensors = with_tensors({"output.weight": (Q8_0, (len(tiny.TOKENS), 32))})
    lm = assay.load(tiny.write(tmp_path / "m.gguf", tensors=tensors), threads=1)
    assert np.isfinite(lm.logits([4])).all()
    error = refused(tmp_path, tensors=with_tensors({"output.weight": (Q8_0, (len(tiny.TOKENS) + 1, 32))}))
    assert error.want == "[32, 32]"


@pytest.mark.parametrize("name", [Q, "blk.1.ffn_up.weight", "blk.0.ffn_norm.weight"])
def test_a_weight_that_is_not_finite(tmp_path: Path, name: str) -> None:
    """A damaged scale of a block, number of a map, number of a norm."""
    with open_gguf(tiny.write(tmp_path / "m.gguf")) as file:
        offset = file.tensor(name).offset
    content = bytearray((tmp_path / "m.gguf").read_bytes())
    content[offset : offset + 4] = (0x7F80_7F80).to_bytes(4, "little")  # not finite as float16 or float32
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises(FormatError) as caught:
        assay.load(tmp_path / "m.gguf", threads=1)
    assert caught.value.place == f"{tmp_path / 'm.gguf'} › tensor {name}"
    assert caught.value.rule == "a weight that isn't finite"


@pytest.mark.parametrize(("name", "activations"), [("output_norm", "float32"), ("blk.0.attn_norm", "int8")])
def test_a_model_that_cannot_say_a_token(tmp_path: Path, name: str, activations: str) -> None:
    """Every weight is finite, and what comes of them is not: loading ends with a token that is tried."""
    with open_gguf(tiny.write(tmp_path / "m.gguf")) as file:
        info = file.tensor(f"{name}.weight")
    content = bytearray((tmp_path / "m.gguf").read_bytes())
    content[info.offset : info.offset + info.nbytes] = np.full(32, 3e38, np.float32).tobytes()
    (tmp_path / "m.gguf").write_bytes(content)
    with pytest.raises((FormatError, PrecisionOverflow)) as caught:
        assay.load(tmp_path / "m.gguf", threads=1, activations=activations)
    assert caught.value.place.startswith(str(tmp_path / "m.gguf")) and caught.value.hint


# Anything -------------------------------------------------------------------------------------------------

SIZES = st.one_of(
    st.sampled_from([1, 2, 16, 32, 64, 128]),
    st.integers(-40, 70),
    st.sampled_from([2**31, 2**32, 2**63, 2**64 - 1]),
)
FLOATS = st.one_of(st.floats(), st.floats(width=32), st.sampled_from([1e-5, 1.0, 10000.0]))
OTHER = st.one_of(st.booleans(), st.text(max_size=3), st.none(), FLOATS, SIZES)
KEYS = {
    "block_count": SIZES, "context_length": SIZES, "embedding_length": SIZES, "feed_forward_length": SIZES,
    "vocab_size": SIZES, "attention.head_count": SIZES, "attention.head_count_kv": SIZES,
    "attention.key_length": SIZES, "attention.value_length": SIZES, "rope.dimension_count": SIZES,
    "expert_count": SIZES, "attention.layer_norm_rms_epsilon": FLOATS, "rope.freq_base": FLOATS,
    "rope.scaling.factor": FLOATS, "rope.scaling.attn_factor": FLOATS,
    "rope.scaling.type": st.sampled_from(["none", "linear", "yarn", "longrope"]),
    "rope.scaling.original_context_length": SIZES,
}  # fmt: skip


@st.composite
def hyperparameters(draw: st.DrawFn) -> dict[str, MetadataValue | None]:
    """A few keys with other values."""
    keys = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=4, unique=True))
    return {f"llama.{key}": draw(st.one_of(KEYS[key], KEYS[key], KEYS[key], OTHER)) for key in keys}


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(changes=hyperparameters())
def test_any_hyperparameters_are_refused_or_load(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, MetadataValue | None]
) -> None:
    path = tiny.write(tmp_path_factory.getbasetemp() / "any.gguf", changes)
    load_and_try(path)


@st.composite
def models(draw: st.DrawFn) -> tuple[Changes, tiny.Tensors]:
    """Shapes that fit each other, of which one tensor may be another."""
    head_dim, kv_heads = draw(st.sampled_from([16, 32, 48, 80, 8])), draw(st.integers(1, 3))
    heads = kv_heads * draw(st.integers(1, 3)) + (draw(st.integers(0, 9)) == 9)
    layers, base = draw(st.integers(1, 3)), draw(st.sampled_from([1.0, 1e4, 1e9]))
    pairs = draw(st.integers(1, head_dim // 2))
    model = Decoder(
        name="any", layers=layers, hidden=draw(st.sampled_from([32, 40, 64])),
        feed_forward=draw(st.integers(1, 70)), heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, vocabulary=len(tiny.TOKENS), context=draw(st.integers(2, 200)),
        epsilon=draw(st.sampled_from([2.0**-17, 1.0])), ropes=(Rope(base, pairs, "neighbours"),) * layers,
        tied=draw(st.booleans()),
    )  # fmt: skip
    changes: Changes = {
        "llama.block_count": model.layers, "llama.context_length": model.context,
        "llama.embedding_length": model.hidden, "llama.feed_forward_length": model.feed_forward,
        "llama.attention.head_count": heads, "llama.attention.head_count_kv": model.kv_heads,
        "llama.attention.key_length": head_dim, "llama.attention.layer_norm_rms_epsilon": model.epsilon,
        "llama.rope.freq_base": base, "llama.rope.dimension_count": 2 * pairs,
    }  # fmt: skip
    tensors: tiny.Tensors = {}
    for name, wanted in weights(model).items():
        blocks = wanted.shape[-1] % 32 == 0 and len(wanted.shape) == 2 and draw(st.booleans())
        tensors[name] = (Q8_0 if blocks else F32, wanted.shape)
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from(sorted(tensors)))
        shape = st.lists(st.sampled_from([1, 16, 32, 64, 65]), min_size=1, max_size=3)
        tensors[name] = (F32, tuple(draw(shape)))
    return changes, tensors


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(model=models(), activations=st.sampled_from(["int8", "float32"]))
def test_any_model_is_refused_or_loads(
    tmp_path_factory: pytest.TempPathFactory, model: tuple[Changes, tiny.Tensors], activations: str
) -> None:
    path = tiny.write(tmp_path_factory.getbasetemp() / "any.gguf", *model)
    load_and_try(path, activations)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    changes=st.lists(st.tuples(st.integers(0, 2**32), st.integers(0, 255)), min_size=1, max_size=3),
    flip=st.booleans(),
)
def test_a_damaged_head_is_refused_or_loads(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], flip: bool
) -> None:
    path = tiny.write(tmp_path_factory.getbasetemp() / "damaged.gguf")
    content = bytearray(path.read_bytes())
    head = content.index(b"output_norm.weight") + 50
    for place, value in changes:
        content[place % head] = content[place % head] ^ value if flip else value
    path.write_bytes(content)
    load_and_try(path)


def load_and_try(path: Path, activations: str = "int8") -> None:
    """A FormatError that says what is wrong, or a model that computes."""
    try:
        lm = assay.load(path, threads=1, activations=activations, cache_tokens=256)
    except FormatError as error:
        assert error.place.startswith(f"{path} › ")
        assert error.rule
        return
    assert np.isfinite(lm.logits([3])).all()


# The graph ------------------------------------------------------------------------------------------------


def test_a_graph_that_breaks_contracts_is_refused_with_all_violations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass that goes wrong in five nodes."""

    def pass_gone_wrong(graph: Graph) -> Graph:
        good = quantize_activations(graph)
        nodes = (replace(node, attributes={}) if node.op == "rms_norm" else node for node in good.nodes)
        return replace(good, nodes=tuple(nodes))

    monkeypatch.setattr(loader, "quantize_activations", pass_gone_wrong)
    with pytest.raises(ContractError) as caught:
        assay.load(tiny.write(tmp_path / "m.gguf"), threads=1)
    assert len(caught.value.violations) == 5
    assert {error.rule for error in caught.value.violations} == {"attribute epsilon missing"}
    assert caught.value.violations[-1].place.endswith('node "output_norm" (rms_norm)')


def test_the_template_gets_the_token_that_the_file_says_ends_a_text(tmp_path: Path) -> None:
    """Not the least of those that end an answer."""
    message = [{"role": "user", "content": "abc"}]
    changes: Changes = {"tokenizer.ggml.eot_token_id": 0}
    lm = assay.load(tiny.write(tmp_path / "m.gguf", changes), threads=1)
    assert lm.tokenizer.end_ids == {0, 2}
    assert lm.tokenizer.eos_id == 2
    assert lm.template is not None
    assert lm.template.render(message) == "abc<more>"
    changes = {**changes, "tokenizer.ggml.eos_token_id": None}
    lm = assay.load(tiny.write(tmp_path / "m.gguf", changes), threads=1)
    assert lm.tokenizer.eos_id is None
    assert lm.template is not None
    assert lm.template.render(message) == "abc"

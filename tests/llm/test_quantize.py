"""Weights that become others while they are loaded: plain ones blocks, rare blocks float32."""

from __future__ import annotations

import sys
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest

import assay
from assay.errors import FormatError, PrecisionOverflow, RequestError
from assay.formats.gguf_writer import Row, write_gguf
from assay.formats.quant import dequantise, quantise
from assay.formats.recipe import KEPT, Recipe
from assay.llm.options import Options
from assay.models.decoder import weights
from assay.models.decoder_graph import computed
from assay.models.parts import Weights
from assay.tensor.dtype import BF16, F16, F32, Q4_0, Q4_1, Q4_K, Q6_K, Q8_0, RARE, DType
from llm import tiny
from llm.small import golden

Floats = npt.NDArray[np.float32]
DOWN = "blk.1.ffn_down.weight"
WIDE: tiny.Tensors = {
    name: (F32, tuple(256 if side == tiny.FEED_FORWARD else side for side in shape))
    for name, (_, shape) in tiny.shapes().items()
}
"""The tiny model with plain weights, and rows of 256 in one map of its feed-forward part."""


def written(path: Path, rows: list[Row]) -> Path:
    write_gguf(path, {**tiny.METADATA, "llama.feed_forward_length": 256}, rows)
    return path


def logits(path: Path, quantize: str | None = None) -> Floats:
    with assay.load(path, threads=1, activations="float32", quantize=quantize) as lm:
        return lm.logits([1, 5, 9, 4])


def there_and_back(values: Floats, dtype: DType) -> Floats:
    kind = gguf.GGMLQuantizationType[dtype.name.upper()]
    found: Floats = gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind)
    return found


def test_rounding_at_load_is_ggufs(tmp_path: Path) -> None:
    """In float32 both sum the same numbers in the same order, so the bits are the same."""
    rows, rounded = tiny.rows(WIDE), []
    for name, dtype, shape, raw in rows:
        values = dequantise(np.frombuffer(raw, np.uint8), dtype, shape)
        if len(shape) > 1:
            values = there_and_back(values, Q8_0 if name == "token_embd.weight" else Q4_0)
        rounded.append((name, F32, shape, values.reshape(-1).view(np.uint8)))
    plain = written(tmp_path / "plain.gguf", rows)
    expected = logits(written(tmp_path / "rounded.gguf", rounded))
    assert np.array_equal(logits(plain, "q4_0"), expected)
    with assay.load(plain, threads=1, quantize="q4_0") as lm:
        assert lm.details["weights"] == "float32 as q4_0, float32 as q8_0"
        assert lm.graph.types[DOWN].dtype is Q4_0


@pytest.mark.parametrize("name", ["phi3", "gpt2", "llama-wide"])
def test_weights_of_folders_are_rounded(name: str) -> None:
    """Those that are cut out of wider tensors, stored transposed or of bfloat16 too."""
    model, parts, file = golden(name)
    wanted = weights(model)
    plain, rounded = (Weights(file, parts, wanted, computed(model)) for _ in range(2))
    rounded.follow(Recipe(Q8_0))
    for each, want in wanted.items():
        values = dequantise(plain.raw(each), plain.dtypes[each], want.shape)
        found = dequantise(rounded.raw(each), rounded.dtypes[each], want.shape)
        kept = len(want.shape) == 1 or each in KEPT
        assert rounded.dtypes[each] is (plain.dtypes[each] if kept else Q8_0)
        assert np.array_equal(found, values if kept else there_and_back(values, Q8_0)), each


@pytest.mark.parametrize("dtype", RARE, ids=str)
def test_rare_types_run_as_float32(dtype: DType, tmp_path: Path) -> None:
    """With the bits that the `gguf` package makes of them."""
    kind = gguf.GGMLQuantizationType[dtype.name.upper()]
    raw = np.random.default_rng(5).integers(0, 256, (20000, dtype.nbytes(256)), np.uint8)
    with np.errstate(all="ignore"):
        values = gguf.quants.dequantize(raw, kind)
    tame = np.flatnonzero((np.abs(values) < 1e4).all(axis=1))[: tiny.HIDDEN]
    assert len(tame) == tiny.HIDDEN
    rows = {row[0]: row for row in tiny.rows(WIDE)}
    shape = rows[DOWN][2]
    rare = rows | {DOWN: (DOWN, dtype, shape, raw[tame].reshape(-1))}
    plain = rows | {DOWN: (DOWN, F32, shape, values[tame].reshape(-1).view(np.uint8))}
    expected = logits(written(tmp_path / "plain.gguf", list(plain.values())))
    path = written(tmp_path / "rare.gguf", list(rare.values()))
    assert np.array_equal(logits(path), expected)
    with assay.load(path, threads=1) as lm:
        assert lm.details["weights"] == f"float32, {dtype} as float32"


def test_rare_types_need_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    (dtype,) = (dtype for dtype in RARE if dtype.name == "iq2_xs")
    with pytest.raises(FormatError) as caught:
        dequantise(np.zeros(dtype.size, np.uint8), dtype, (256,))
    assert caught.value.rule == "weights of iq2_xs need the gguf package"
    assert caught.value.hint == 'pip install "assay[gguf]"'


NAMES = ("token_embd.weight", "a.weight", "a.bias", "output.weight")


@pytest.mark.parametrize(
    ("recipe", "name", "dtype", "shape", "wanted"),
    [
        (Recipe(Q4_0), "a.weight", F32, (4, 64), Q4_0),
        (Recipe(Q4_0), "a.weight", BF16, (4, 64), Q4_0),
        (Recipe(Q4_0), "a.weight", F32, (64,), F32),
        (Recipe(Q4_0), "a.bias", F32, (4, 64), F32),
        (Recipe(Q4_0), "token_embd.weight", F16, (4, 64), Q4_0),
        (Recipe(Q4_0), "output.weight", F16, (4, 64), Q8_0),
        (Recipe(Q4_0), "output.weight", F16, (4, 512), Q6_K),
        (Recipe(Q4_K, Q8_0), "a.weight", F16, (4, 64), Q8_0),
        (Recipe(Q4_K, Q8_0), "a.weight", F16, (4, 512), Q4_K),
        (Recipe(Q4_0, again=True), "a.weight", Q8_0, (4, 64), Q4_0),
        (Recipe(Q8_0), "output.weight", F16, (4, 512), Q8_0),
        (Recipe(Q4_0), "position_embd.weight", F16, (4, 64), F16),
    ],
)
def test_what_becomes_of_a_tensor(
    recipe: Recipe, name: str, dtype: DType, shape: tuple[int, ...], wanted: DType
) -> None:
    assert recipe.becomes(name, dtype, shape, NAMES) is wanted


def test_the_token_table_is_the_matrix_of_logits_where_there_is_no_other() -> None:
    assert Recipe(Q4_0).becomes("token_embd.weight", F16, (4, 512), NAMES[:-1]) is Q6_K


@pytest.mark.parametrize(
    ("recipe", "dtype", "shape", "fields"),
    [
        (Recipe(Q8_0), Q4_1, (4, 64), ("weights that are quantised already", "q4_1")),
        (Recipe(Q8_0), RARE[0], (4, 256), ("weights that are quantised already", "iq1_s")),
        (Recipe(Q8_0), F32, (4, 48), ("a row is not whole blocks", "48 columns")),
        (Recipe(Q4_K, Q8_0), F32, (4, 48), ("a row is not whole blocks", "48 columns")),
    ],
)
def test_what_is_refused(
    recipe: Recipe, dtype: DType, shape: tuple[int, ...], fields: tuple[str, str]
) -> None:
    with pytest.raises(RequestError) as caught:
        recipe.becomes("a.weight", dtype, shape, NAMES)
    assert (caught.value.rule, caught.value.got, caught.value.place) == (*fields, "tensor 'a.weight'")


def test_loading_names_the_field_and_the_tensor(tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        assay.load(tiny.write(tmp_path / "m.gguf"), threads=1, quantize="q8_0")
    assert caught.value.place == "quantize › tensor 'token_embd.weight'"
    with pytest.raises(RequestError) as caught:
        Options(quantize="int4")
    assert caught.value.place == "quantize" and "q8_0" in caught.value.want


def test_a_weight_that_is_not_finite_is_named(tmp_path: Path) -> None:
    rows = tiny.rows(WIDE)
    number = [row[0] for row in rows].index(DOWN)
    values = np.ones(rows[number][2], np.float32)
    values[3, 40] = np.inf
    rows[number] = (DOWN, F32, values.shape, quantise(values, F32))
    with pytest.raises(PrecisionOverflow) as caught:
        assay.load(written(tmp_path / "m.gguf", rows), threads=1, quantize="q8_0")
    assert caught.value.place == f"tensor '{DOWN}' › block 25"

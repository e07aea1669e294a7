"""Embedders: as transformers and sentence-transformers compute them, or refused by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import assay
from assay.errors import FormatError, RequestError
from llm.converted import write_bert
from llm.small import GOLDEN, safetensors
from llm.test_word_piece import REFERENCE

Fields = dict[str, object]
TEXTS = [
    "Der schnelle braune Fuchs",
    "",
    "Numbers 123, and (punctuation)!",
    "über " * 60,
    "a",
    "hund " * 30,
] * 3
MODULES: list[Fields] = [
    {"idx": 0, "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]
MEAN: Fields = {
    "word_embedding_dimension": 64,
    "pooling_mode_mean_tokens": True,
    "pooling_mode_max_tokens": False,
}


def write(place: Path, modules: object = MODULES, pooling: Fields = MEAN, **beside: Fields) -> Path:
    """A sentence embedder around the golden bert."""
    if not place.exists():
        shutil.copytree(GOLDEN / "bert", place)
        REFERENCE.save(str(place / "tokenizer.json"))
        (place / "1_Pooling").mkdir()
    (place / "modules.json").write_text(json.dumps(modules))
    (place / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    for name, fields in beside.items():
        (place / f"{name}.json").write_text(json.dumps(fields))
    return place


def load(place: Path, **options: int) -> assay.EmbeddingModel:
    found = assay.load(place, threads=2, **options)  # type: ignore[arg-type]
    assert isinstance(found, assay.EmbeddingModel)
    return found


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[assay.EmbeddingModel]:
    place = write(tmp_path_factory.mktemp("models") / "bert", sentence_bert_config={"max_seq_length": 100})
    with load(place) as made:
        yield made


def tokens_of(text: str) -> list[int]:
    found: list[int] = REFERENCE.encode(text).ids
    return found


def unit(vectors: NDArray[np.floating]) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=-1, keepdims=True)


def test_hidden_states_are_those_of_transformers(model: assay.EmbeddingModel) -> None:
    """In float32 both are exact to rounding: 1e-4 of the greatest magnitude is a thousand times that."""
    golden = GOLDEN / "bert"
    tokens, expected = np.load(golden / "tokens.npy"), np.load(golden / "output.npy")
    found = model.hidden_states(tokens)[np.load(golden / "positions.npy")]
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_layers_have_one_cache_in_turn(model: assay.EmbeddingModel) -> None:
    assert len(model.graph.states) == 2


@pytest.mark.parametrize("pooling", [None, "mean", "cls", "last"])
def test_texts_are_pooled_hidden_states(model: assay.EmbeddingModel, pooling: str | None) -> None:
    """In float64 from the same hidden states: the mean of 62 has 9 roundings of its terms, a length 30."""
    texts = [*TEXTS, "hund über " * 90]
    found = model.embed(texts, pooling=pooling, truncate=True)
    for text, vector in zip(texts, found, strict=True):
        tokens = tokens_of(text)
        hidden = model.hidden_states(tokens if len(tokens) <= 100 else [*tokens[:99], tokens[-1]])
        wanted = {"cls": hidden[0], "last": hidden[-1]}.get(pooling or "mean", hidden.mean(0, np.float64))
        assert np.abs(vector - unit(wanted)).max() < 1e-6


def test_a_texts_vector_is_its_own(model: assay.EmbeddingModel) -> None:
    """Whoever shares the step, whatever the order and the threads: the same bits."""
    many = [f"{text} {index}" for index in range(60) for text in TEXTS[:3]]
    together = model.embed(many)
    order = np.random.default_rng(3).permutation(len(many))
    assert (model.embed([many[index] for index in order]) == together[order]).all()
    for index in (0, 1, 77, 179):
        assert (model.embed([many[index]])[0] == together[index]).all()
    with load(write(Path(str(model.details["path"]))), context=128) as other:
        assert (other.embed(many) == together).all()
    assert model.embed([]).shape == (0, 64)


def test_arrays_outlive_later_steps_and_go_to_others_without_a_copy(model: assay.EmbeddingModel) -> None:
    for made in (lambda: model.embed(TEXTS[:2]), lambda: model.hidden_states(range(5, 60))):
        array = made()
        shared, before = np.from_dlpack(array), array.copy()
        assert np.shares_memory(shared, array) and array.dtype == np.float32 and array.flags.c_contiguous
        assert array.flags.writeable and array.__dlpack_device__() == (1, 0)
        model.embed(["some other text"] * 40)
        assert (shared == before).all()
        del array
        assert (shared == before).all()


def test_what_cannot_be_embedded_is_refused_by_name(model: assay.EmbeddingModel) -> None:
    long = "über " * 200
    count = len(tokens_of(long))
    for texts, options, place, want, got in (
        (["a", long], {}, "texts[1]", "1 to 100 tokens", str(count)),
        ("a", {}, "texts", "strings", "str"),
        (["a", 5], {}, "texts[1] › text", "a string", "int"),
        (["a"], {"pooling": "max"}, "pooling", "mean or cls or last", "'max'"),
        (["a"], {"truncate": "no"}, "truncate", "True or False", "'no'"),
    ):
        with pytest.raises(RequestError) as refused:
            model.embed(texts, **options)  # type: ignore[arg-type]
        assert (refused.value.place, refused.value.want, refused.value.got) == (place, want, got)
    for tokens, place in (
        ([], "tokens"), ([320], "tokens[0]"), ([1, 10**5000], "tokens[1]"), (np.ones(3), "tokens[0]"),
        ("a", "tokens"),
    ):  # fmt: skip
        with pytest.raises(RequestError) as refused:
            model.hidden_states(tokens)  # type: ignore[arg-type]
        assert refused.value.place == place


def test_tokens_that_there_are_not_reach_no_kernel(
    model: assay.EmbeddingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a tokenizer, which is made of files, gives."""
    monkeypatch.setattr(type(model.tokenizer), "encode", lambda *texts, **how: [1, 2_000_000_000])
    with pytest.raises(RequestError, match="no such token") as refused:
        model.embed(["a"])
    assert refused.value.place == "texts[0][1]"


def test_options_of_models_that_answer_are_refused(model: assay.EmbeddingModel) -> None:
    place = str(model.details["path"])
    options: tuple[Fields, ...] = (
        {"budget": 5},
        {"cache_tokens": 64},
        {"adapters": {"a": "b"}},
        {"draft": place},
    )
    for option in options:
        with pytest.raises(RequestError, match="an embedder has no such option") as refused:
            assay.load(place, **option)  # type: ignore[arg-type]
        assert refused.value.place == next(iter(option))


def test_without_modules_the_pooling_must_be_given(tmp_path: Path) -> None:
    place = write(tmp_path / "bert")
    (place / "modules.json").unlink()
    with load(place) as model:
        with pytest.raises(RequestError, match="this model's files don't say how it pools"):
            model.embed(["a"])
        assert model.embed(["a"], pooling="cls").shape == (1, 64)


def test_the_files_say_how_it_is_pooled(tmp_path: Path, model: assay.EmbeddingModel) -> None:
    texts = TEXTS[:3]
    for number, (modules, pooling, kind) in enumerate(
        (
            (MODULES, {"embedding_dimension": 64, "pooling_mode": "cls"}, "cls"),
            (MODULES[:2], {"pooling_mode_lasttoken": True, "include_prompt": True}, "last"),
        )
    ):
        with load(write(tmp_path / f"bert{number}", modules, pooling)) as other:
            found = other.embed(texts)
            assert (len(modules) == 3) == bool(np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6))
            assert np.abs(unit(found) - model.embed(texts, pooling=kind)).max() < 1e-6


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"modules": MODULES[:1]}, "modules.json"),
        (
            {"modules": [*MODULES, {"path": "3_Dense", "type": "sentence_transformers.models.Dense"}]},
            "modules.json",
        ),
        ({"modules": {}}, "modules.json"),
        ({"modules": [7]}, "modules.json"),
        *(({"modules": [*MODULES[:2], junk]}, "modules.json") for junk in (5, None, "Normalize", [], {})),
        ({"modules": [MODULES[0], {**MODULES[1], "path": "../bert"}]}, "file '../bert'"),
        ({"modules": [MODULES[0], {**MODULES[1], "path": "elsewhere"}]}, "file 'elsewhere'"),
        ({"pooling": {"pooling_mode_max_tokens": True}}, "pooling_mode"),
        ({"pooling": MEAN | {"pooling_mode_cls_token": True}}, "pooling_mode"),
        ({"pooling": {}}, "pooling_mode"),
        ({"pooling": {"pooling_mode": ["mean"]}}, "pooling_mode"),
        ({"pooling": MEAN | {"word_embedding_dimension": 65}}, "word_embedding_dimension"),
        ({"pooling": MEAN | {"include_prompt": False}}, "include_prompt"),
        ({"sentence_bert_config": {"do_lower_case": True}}, "do_lower_case"),
        ({"sentence_bert_config": {"max_seq_length": "all"}}, "max_seq_length"),
        ({"config_sentence_transformers": {"default_prompt_name": "query"}}, "default_prompt_name"),
    ],
)
def test_modules_that_would_do_something_else_are_refused(
    tmp_path: Path, changes: Fields, place: str
) -> None:
    with pytest.raises(FormatError) as refused:
        load(write(tmp_path / "bert", **changes))  # type: ignore[arg-type]
    assert refused.value.place.endswith(place)


def test_a_decoder_whose_files_say_so_embeds(tmp_path: Path) -> None:
    """The golden qwen3's logits are its hidden states through the output map."""
    place = tmp_path / "qwen3"
    shutil.copytree(GOLDEN / "qwen3", place)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(place / "tokenizer.json"))
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"eos_token_id": None}))
    (place / "1_Pooling").mkdir()
    write(place, MODULES, {"pooling_mode_lasttoken": True})
    tensors = safetensors(place / "model.safetensors")[0]
    head = tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"]).astype(np.float64)
    tokens, positions = np.load(place / "tokens.npy"), np.load(place / "positions.npy")
    expected = np.load(place / "output.npy")
    with load(place) as model:
        found = model.hidden_states(tokens)[positions].astype(np.float64) @ head.T
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
        last = model.hidden_states(tokenizer.encode("a fox").ids)[-1]
        assert np.abs(model.embed(["a fox"])[0] - unit(last)).max() < 1e-6
        with pytest.raises(RequestError, match="the text is empty"):
            model.embed([""])


def test_minilm_is_that_of_sentence_transformers() -> None:
    """The stored vectors have 7 digits: cosines of equal ones are 1 within 1e-7."""
    golden = json.loads((GOLDEN / "minilm" / "embeddings.json").read_text())
    with assay.load("minilm", threads=2) as model:
        assert isinstance(model, assay.EmbeddingModel)
        encode = model.tokenizer.encode
        assert [encode(text, bos=True, eos=True) for text in golden["texts"]] == golden["ids"]
        found = model.embed(golden["texts"])
        assert (np.sum(unit(found) * unit(np.array(golden["embeddings"])), axis=1) >= 0.999999).all()


@pytest.mark.parametrize("kind", ["mean", "cls"])
def test_a_gguf_file_is_embedded_as_by_llama_cpp(tmp_path: Path, kind: str) -> None:
    """Ids are equal. llama.cpp's GELU is a table in float16, so vectors of length 1 are 1e-3 apart."""
    golden = json.loads((GOLDEN / "gguf" / "llama_cpp_bert.json").read_text())
    path = tmp_path / "bert.gguf"
    write_bert(path, gguf.PoolingType[kind.upper()])
    with load(path) as model:
        encode = model.tokenizer.encode
        assert [encode(text, bos=True, eos=True) for text in golden["texts"]] == golden["ids"]
        found = model.embed(golden["texts"])
    assert np.abs(found - np.array(golden[kind])).max() < 1e-3
    assert (np.sum(found * np.array(golden[kind]), axis=1) > 0.99999).all()


def test_other_embedders_of_gguf_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bert.gguf"
    write_bert(path, gguf.PoolingType.RANK)
    with pytest.raises(FormatError) as refused:
        load(path)
    assert refused.value.place.endswith("key 'bert.pooling_type'")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"\4\0\0\0\0\0\0\0bert", b"\4\0\0\0\0\0\0\0eert", 1))
    with pytest.raises(FormatError, match="an architecture that isn't known") as refused:
        load(path)
    assert refused.value.hint == "did you mean bert?"

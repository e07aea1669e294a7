"""Folders as GGUF files: held against files of the `gguf` package's making, llama.cpp's answers, our own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import assay
from assay.errors import FormatError
from assay.formats.gguf_writer import write_gguf
from assay.llm.folder_tokenizer import FolderTokenizer
from assay.llm.gguf_folder import open_as_gguf, tokenizer_keys
from assay.llm.spelling import BYTE_TOKENS
from assay.llm.tokenizer import Tokenizer as Own
from llm import converted
from llm.converted import GOLDEN, LENGTH, MODELS, POSITIONS
from llm.test_folder_tokenizer import TEXTS, byte_level, pieces, unigram

TEMPLATE = "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}"
SPECIAL = ("<begin>", "<end>", "<|user|>")
NAMES = ("llama", "llama-wide", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2")


def letters() -> Tokenizer:
    """A byte-level BPE of 320 tokens at most: letters, a merge, special tokens, and one that isn't."""
    tokens = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab"]
    made = Tokenizer(models.BPE({token: n for n, token in enumerate(tokens)}, [("a", "b")]))
    digits = pre_tokenizers.Digits(individual_digits=True)
    made.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    made.add_tokens([AddedToken("<tool>", normalized=False)])
    made.post_processor = processors.TemplateProcessing("<begin> $A", special_tokens=[("<begin>", 0)])
    return made


def words() -> Tokenizer:
    """BERT's, where its files have the special tokens."""
    special = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")
    alphabet = [chr(97 + index) for index in range(26)]
    tokens = ["[PAD]", *(f"[unused{index}]" for index in range(99)), *special, *converted.WORDS]
    tokens += [*alphabet, ".", "!", *(f"##{letter}" for letter in alphabet), "##ing"]
    made = Tokenizer(models.WordPiece({token: n for n, token in enumerate(tokens)}, unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens([AddedToken(token, special=True) for token in ("[PAD]", *special)])
    around = [("[CLS]", 101), ("[SEP]", 102)]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=around)
    return made


def all_pairs(made: Tokenizer) -> Tokenizer:
    """With the merges that SentencePiece's files are given: all pairs of tokens that are one, by its rank."""
    fields = json.loads(made.to_str())
    vocabulary = fields["model"]["vocab"]
    made_of = map("".join, fields["model"]["merges"])
    ranks = dict.fromkeys(token for token in made_of if token not in BYTE_TOKENS)
    cuts = [(token[:at], token[at:]) for token in ranks for at in range(len(token) - 1, 0, -1)]
    fields["model"]["merges"] = [pair for pair in cuts if vocabulary.keys() >= {*pair}]
    return Tokenizer.from_str(json.dumps(fields))


def folder(place: Path, name: str, made: Tokenizer | None = None, **fields: object) -> Path:
    """A golden model's folder, with a tokenizer and its neighbours."""
    shutil.copytree(GOLDEN / name, place)
    (made or (words() if name == "bert" else letters())).save(str(place / "tokenizer.json"))
    config = json.loads((place / "config.json").read_text()) | {"eos_token_id": None, **fields}
    (place / "config.json").write_text(json.dumps(config))
    if name != "bert":
        said = {"bos_token": "<begin>", "eos_token": "<end>", "chat_template": TEMPLATE}
        (place / "tokenizer_config.json").write_text(json.dumps(said))
    return place


def written(path: Path, place: Path) -> gguf.GGUFReader:
    """The folder as a GGUF file, as the package reads it."""
    with open_as_gguf(place) as file:
        infos = file.tensors.values()
        rows = [(info.name, info.dtype, info.shape, partial(file.raw, info.name)) for info in infos]
        write_gguf(path, file.metadata, rows)
    return gguf.GGUFReader(path)


def values(file: gguf.GGUFReader) -> dict[str, np.ndarray]:
    return {each.name: gguf.quants.dequantize(each.data, each.tensor_type) for each in file.tensors}


@pytest.mark.parametrize("name", [*NAMES, "bert"])
def test_keys_and_weights_are_those_of_the_public_converters(tmp_path: Path, name: str) -> None:
    """The converters' rules as tests/llm/converted.py follows them, whose files llama.cpp was asked
    about. Its divisors of frequencies have another order of roundings; weights are the same numbers.
    """
    ours = written(tmp_path / "m.gguf", folder(tmp_path / "folder", name))
    if name == "bert":
        converted.write_bert(tmp_path / "n.gguf", gguf.PoolingType.MEAN)
    else:
        converted.write(tmp_path / "n.gguf", name)
    theirs = gguf.GGUFReader(tmp_path / "n.gguf")
    found, wanted = values(ours), values(theirs)
    assert found.keys() == wanted.keys()
    for tensor, expected in wanted.items():
        if tensor == "rope_freqs.weight":
            assert np.allclose(found[tensor], expected, rtol=1e-6, atol=0.0)
        else:
            assert np.array_equal(found[tensor], expected), tensor
    other = {
        "phi3.rope.scaling.original_context_length", "phi3.attention.sliding_window", "bert.pooling_type",
        "general.name", "general.file_type", *(["llama.context_length"] if name == "mistral" else []),
    }  # fmt: skip
    for key in theirs.fields.keys() - other:
        if not key.startswith(("GGUF", "tokenizer")):
            assert ours.fields[key].contents() == theirs.fields[key].contents(), key


@pytest.mark.parametrize("name", NAMES)
def test_the_file_answers_as_the_folder_and_as_llama_cpp(tmp_path: Path, name: str) -> None:
    """Where rows of queries and keys move, their products are summed in another order: 1e-6 of the greatest
    magnitude is ten roundings of float32; elsewhere bits are the same. For llama.cpp's bounds, see
    test_gguf_architectures.py. Of mistral the file says a context that its window doesn't cut.
    """
    place, path = folder(tmp_path / "folder", name), tmp_path / "m.gguf"
    written(path, place)
    tokens = np.load(GOLDEN / name / "tokens.npy")[: 100 if name == "mistral" else LENGTH].tolist()
    options = {"threads": 1, "activations": "float32", "cache_tokens": 256}
    with assay.load(place, **options) as first, assay.load(path, **options) as other:
        expected, found = first.logits(tokens), other.logits(tokens)
        assert first.chat([{"role": "user", "content": "ab"}], max_tokens=3).tokens == (
            other.chat([{"role": "user", "content": "ab"}], max_tokens=3).tokens
        )
        assert other.details["parameters"].context == (100 if name == "mistral" else 512)
    most = np.abs(expected).max()
    turned = name in ("llama", "llama-wide", "mistral")
    assert np.abs(found - expected).max() <= (1e-6 * most if turned else 0.0)
    at = [position for position in POSITIONS if position < len(tokens)]
    recorded = np.load(GOLDEN / "gguf" / "llama_cpp.npz")[name][: len(at)]
    bound = 4 * 2.0**-11 if MODELS[name].golden in ("gemma2", "gemma3", "gpt2") else 1e-5
    assert np.abs(found[at] - recorded).max() <= bound * np.abs(recorded).max()


def test_an_embedder_answers_as_the_folder(tmp_path: Path) -> None:
    place = folder(tmp_path / "folder", "bert")
    (place / "1_Pooling").mkdir()
    steps = [{"type": "m.Transformer", "path": ""}, {"type": "m.Pooling", "path": "1_Pooling"}]
    (place / "modules.json").write_text(json.dumps([*steps, {"type": "m.Normalize", "path": "2"}]))
    (place / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    written(tmp_path / "m.gguf", place)
    with assay.load(place, threads=1) as first, assay.load(tmp_path / "m.gguf", threads=1) as other:
        expected, found = first.embed(converted.BERT_TEXTS[:3]), other.embed(converted.BERT_TEXTS[:3])
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "fields", "at"),
    [
        ("llama", {"hidden_act": "gelu"}, "activation"),
        ("qwen2", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0,
          "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}, "ropes"),
        ("llama", {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "ropes"),
        ("gemma2", {"query_pre_attn_scalar": 99}, "attention_scale"),
        ("gemma2", {"layer_types": ["full_attention", "sliding_attention"]}, "windows"),
        ("gemma2", {"attn_logit_softcapping": None}, "attention_cap"),
        ("gpt2", {"activation_function": "gelu"}, "activation"),
        ("llama", {"rope_parameters": {"rope_theta": 10000.001}}, "ropes"),
    ],
)  # fmt: skip
def test_a_model_that_no_key_says(tmp_path: Path, name: str, fields: dict[str, object], at: str) -> None:
    place = folder(tmp_path / "folder", name, **fields)
    with pytest.raises(FormatError) as caught, open_as_gguf(place):
        pass
    assert caught.value.rule == "a model that a GGUF file can't say"
    assert caught.value.place == f"{place} › config.json ({at})"


# Tokenizers -----------------------------------------------------------------------------------------------


def own(place: Path, made: Tokenizer, more: int = 3) -> Own:
    """A folder's tokenizer, of a model with some rows that no token has."""
    place.mkdir()
    made.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    return FolderTokenizer(place, made.get_vocab_size() + more).tokenizer()


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "llama": lambda: all_pairs(pieces(True, True)),
    "gemma": lambda: all_pairs(pieces(False, False)),
    **{pre: partial(byte_level, pre) for pre in ("gpt-2", "smollm", "dbrx", "qwen2", "gpt-4o")},
}


@pytest.mark.parametrize("name", KINDS)
def test_a_tokenizer_is_the_same_in_keys(tmp_path: Path, name: str) -> None:
    """Its ids are held against the library's elsewhere, and those of such keys against llama.cpp's."""
    made = KINDS[name]()
    made.add_tokens([AddedToken("<tool>", normalized=False)])
    first = own(tmp_path / "folder", made)
    keys = tokenizer_keys(first, "phi-3 like")
    other = Own.from_gguf(keys)
    assert keys["general.name"] == "phi 3 like"
    assert keys["tokenizer.ggml.model"] == ("llama" if name in ("llama", "gemma") else "gpt2")
    assert name in (keys.get("tokenizer.ggml.pre"), "llama", "gemma")
    for text in TEXTS:
        for special in (False, True):
            assert other.encode(text, special=special) == first.encode(text, special=special), text
        assert other.decode(first.encode(text)) == first.decode(first.encode(text))


def test_named_tokens_beyond_the_models_own(tmp_path: Path) -> None:
    """As in the files of Qwen: the model knows none of them, and special ones come before the others."""
    made = byte_level("qwen2")
    for name, special in (
        ("<|endoftext|>", True),
        ("<tool_call>", False),
        ("<|end|>", True),
        ("<think>", False),
    ):
        made.add_tokens([AddedToken(name, special=special, normalized=False)])
    first = own(tmp_path / "folder", made)
    other = Own.from_gguf(tokenizer_keys(first, "m"))
    for text in ("<tool_call>", "a<think>b<|end|>", "<|endoftext|><tool_call><|im_end|><think>"):
        for special in (False, True):
            assert other.encode(text, special=special) == first.encode(text, special=special), text
    assert first.encode("<tool_call><think>") == [
        made.token_to_id(name) for name in ("<tool_call>", "<think>")
    ]


def changed(made: Tokenizer, **parts: object) -> Tokenizer:
    for name, part in parts.items():
        setattr(made, name, part)
    return made


@pytest.mark.parametrize(
    ("make", "at"),
    [
        (unigram, "model"),
        (lambda: pieces(True, True), "model"),  # or its merges: trained anew, they differ
        (lambda: changed(byte_level("qwen2"), pre_tokenizer=pre_tokenizers.ByteLevel()), "pre_tokenizer"),
        (lambda: changed(byte_level("qwen2"), normalizer=normalizers.NFKC()), "normalizer"),
        (lambda: changed(pieces(True, True), normalizer=normalizers.Replace("a", "b")), "normalizer"),
        (lambda: changed(words(), normalizer=normalizers.BertNormalizer(clean_text=False)), "normalizer"),
        (lambda: changed(byte_level("qwen2"), post_processor=processors.TemplateProcessing(
            "$A <s>", special_tokens=[("<s>", 1)])), "closing_id"),
    ],
)  # fmt: skip
def test_a_tokenizer_that_no_key_says(tmp_path: Path, make: Callable[[], Tokenizer], at: str) -> None:
    made = make()
    made.add_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
    with pytest.raises(FormatError) as caught:
        tokenizer_keys(own(tmp_path / "folder", made), "m")
    assert caught.value.rule == "a tokenizer that a GGUF file can't say"
    assert caught.value.place.startswith(f"tokenizer.json › {at}")
    assert caught.value.want and caught.value.got


# A model for text and images ------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_model_for_images(tmp_path: Path, prefix: str) -> None:
    """Its weights and fields lie deeper, and those for images are beside them."""
    plain, place = folder(tmp_path / "plain", "gemma3"), folder(tmp_path / "folder", "gemma3")
    inner = json.loads((place / "config.json").read_text())
    outer = {"model_type": "gemma3", "text_config": inner, "vision_config": {}, "eos_token_id": 1}
    (place / "config.json").write_text(json.dumps(outer))
    tensors = converted.stored(place / "model.safetensors")
    save_file(tensors, plain / "model.safetensors")
    moved = {name.replace("model.", prefix, 1): tensor for name, tensor in tensors.items()}
    beside = "model." if prefix.startswith("model.") else ""
    for name in ("vision_tower.weight", "multi_modal_projector.weight"):
        moved[beside + name] = np.zeros(3, np.float32)
    save_file(moved, place / "model.safetensors")
    with (
        assay.load(plain, threads=1, cache_tokens=256) as first,
        assay.load(place, threads=1, cache_tokens=256) as other,
    ):
        assert np.array_equal(first.logits([1, 2, 3]), other.logits([1, 2, 3]))
    save_file({**moved, "audio_tower.weight": np.zeros(3, np.float32)}, place / "model.safetensors")
    with pytest.raises(FormatError, match="a tensor that the model doesn't use") as caught:
        assay.load(place, threads=1)
    assert caught.value.place == f"{place} › tensor 'audio_tower.weight'"


def test_parts_of_a_model_that_is_not_known_for_them(tmp_path: Path) -> None:
    place = folder(tmp_path / "folder", "llama")
    fields = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**fields, "text_config": {"hidden_size": 999}}))
    with pytest.raises(FormatError) as caught:
        assay.load(place, threads=1)
    assert caught.value.place == f"{place} › config.json › text_config"


@pytest.mark.parametrize("name", ["llama", "phi3", "gpt2"])
def test_errors_name_the_folders_own_tensors(tmp_path: Path, name: str) -> None:
    place = folder(tmp_path / "folder", name)
    tensors = load_file(place / "model.safetensors")
    named = next(each for each in tensors if "mlp" in each and each.endswith("weight"))
    tensors[named] = np.full_like(tensors[named], np.nan)
    save_file(tensors, place / "model.safetensors")
    for quantize in (None, "q8_0"):
        with pytest.raises(assay.AssayError) as caught:
            assay.load(place, threads=1, cache_tokens=256, quantize=quantize)
        assert named in caught.value.place and "blk." not in str(caught.value)

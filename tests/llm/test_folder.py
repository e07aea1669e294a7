"""A Hugging Face folder as a model: what it answers, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

import assay
from assay.errors import AssayError, FormatError
from assay.llm.folder_tokenizer import FolderTokenizer

GOLDEN = Path(__file__).parents[1] / "golden"
TEXT = ["Once upon a time there was a fox.", "Zwölf Boxkämpfer jagen Eva.", "def f(x):\n    return x + 1"] * 3
TEMPLATE = "{{ bos_token }}{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    """A small byte-level BPE of the library's own making."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True) for text in ("<begin>", "<end>", "<|user|>")]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    made.train_from_iterator(TEXT, trainer)
    made.add_tokens([AddedToken("<tool>", special=False)])
    made.post_processor = processors.TemplateProcessing(single="<begin> $A", special_tokens=[("<begin>", 0)])
    return made


@pytest.fixture
def folder(tmp_path: Path, reference: Tokenizer) -> Callable[[str], Path]:
    """A golden model's folder, with the tokenizer and its neighbours."""

    def make(name: str) -> Path:
        place = tmp_path / name
        shutil.copytree(GOLDEN / name, place)
        reference.save(str(place / "tokenizer.json"))
        fields = {"bos_token": "<begin>", "eos_token": {"content": "<end>"}, "chat_template": TEMPLATE}
        (place / "tokenizer_config.json").write_text(json.dumps(fields))
        changed(place, "config.json", eos_token_id=2)  # the golden ones name tokens that they don't have
        (place / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 2]}))
        return place

    return make


@pytest.mark.parametrize(
    "name", ["llama", "llama-wide", "mistral", "qwen2", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"]
)
def test_folders_answer(folder: Callable[[str], Path], name: str) -> None:
    place = folder(name)
    expected, tokens = np.load(place / "output.npy"), np.load(place / "tokens.npy").tolist()
    with assay.load(place, threads=2, activations="float32", cache_tokens=1024) as lm:
        found = lm.logits(tokens)[np.load(place / "positions.npy")]
        assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()
    with assay.load(place, threads=2, cache_tokens=1024) as lm:
        answer = lm.chat([{"role": "user", "content": "Once"}], max_tokens=5)
        assert len(answer.tokens) == 5 or answer.finish_reason == "stop"
        assert answer.tokens == lm.chat([{"role": "user", "content": "Once"}], max_tokens=5).tokens


@pytest.mark.parametrize(("name", "prefix"), [("gpt2", "transformer."), ("llama", "model.")])
def test_names_without_the_models_prefix(folder: Callable[[str], Path], name: str, prefix: str) -> None:
    """As files hold a model that was saved without its head, GPT-2's own among them."""
    place = folder(name)
    with assay.load(place, threads=1, cache_tokens=256) as lm:
        expected = lm.logits([1, 2, 3])
    tensors = load_file(place / "model.safetensors")
    save_file(
        {key.removeprefix(prefix): tensor for key, tensor in tensors.items()}, place / "model.safetensors"
    )
    with assay.load(place, threads=1, cache_tokens=256) as lm:
        assert np.array_equal(lm.logits([1, 2, 3]), expected)


def test_the_tokenizer_is_the_folders(folder: Callable[[str], Path], reference: Tokenizer) -> None:
    with assay.load(folder("llama"), threads=1, cache_tokens=256) as lm:
        own = lm.tokenizer
        assert (own.bos_id, own.eos_id, own.end_ids, own.adds_bos) == (0, 1, {1, 2}, True)
        for text in (*TEXT, "", "ein Fuchs 🦊", "a<tool>b"):
            assert own.encode(text, bos=True) == reference.encode(text).ids
            assert own.decode(own.encode(text)) == text
        typed = "say <end> and <|user|>"
        assert own.encode(typed, special=True) == reference.encode(typed, add_special_tokens=False).ids
        assert own.decode(own.encode(typed)) == typed and own.encode(typed)[-1] != 2
        assert own.vocabulary_size == 320 and own.decode([319]) == ""


def test_a_large_vocabulary_is_read(tmp_path: Path) -> None:
    """As large as Qwen's: 150,000 tokens, and merges as arrays."""
    letters = [chr(0x4E00 + index) for index in range(400)]
    pairs = [(a, b) for a in letters for b in letters][:150_000]
    vocabulary = {text: number for number, text in enumerate([*letters, *(a + b for a, b in pairs)])}
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    fields = json.loads(made.to_str())
    fields["model"] |= {"vocab": vocabulary, "merges": [list(pair) for pair in pairs]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(fields))
    found = FolderTokenizer(tmp_path, 150_400).tokenizer()
    assert found.vocabulary_size == 150_400 and found.id_of(letters[0] + letters[1]) == 401


def changed(place: Path, file: str, **fields: object) -> None:
    path = place / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def config(file: str = "config.json", **fields: object) -> Callable[[Path], None]:
    return lambda place: changed(place, file, **fields)


@pytest.mark.parametrize(
    ("change", "rule", "at"),
    [
        (config(model_type="lama"), "an architecture that isn't known", "model_type"),
        (config(hidden_size=96), "a tensor has another shape", "tensor"),
        (config(num_hidden_layers=3), "a tensor is missing", "tensor"),
        (config(num_hidden_layers=1), "a tensor that the model doesn't use", "tensor"),
        (config(num_attention_heads=0), "a field is out of range", "num_attention"),
        (config(rope_parameters={"rope_type": "yarn"}), "a field is out", "rope_type"),
        (config(rope_scaling={"rope_type": "linear", "factor": 2.0}), "a field is out", "rope_scaling"),
        (config(quantization_config={"quant_method": "gptq"}), "weights that are quantised", "quantization"),
        (config(hidden_act="relu2"), "a field is out of range", "hidden_act"),
        (config(pretraining_tp=2), "a value that isn't supported", "pretraining_tp"),
        (config(eos_token_id=[999]), "a field is out of range", "eos_token_id"),
        (lambda place: (place / "config.json").write_text("{"), "not JSON", "config.json"),
        (lambda place: (place / "tokenizer.json").unlink(), "a file is missing", "tokenizer.json"),
        (lambda place: (place / "model.safetensors").unlink(), "", "llama"),
        (config("tokenizer.json", model={"type": "Unigram"}), "a field is missing", "vocab"),
        (config("tokenizer.json", added_tokens=[{"id": 1}]), "a field is out of range", "added_tokens[0]"),
        (config("tokenizer_config.json", bos_token="<x>"), "no such token", "bos_token"),
        (config("tokenizer_config.json", chat_template=5), "bad chat template", "chat_template"),
    ],
)  # fmt: skip
def test_what_is_refused(
    folder: Callable[[str], Path], change: Callable[[Path], object], rule: str, at: str
) -> None:
    place = folder("llama")
    change(place)
    with pytest.raises(AssayError) as caught:
        assay.load(place, threads=1, cache_tokens=256)
    assert caught.value.rule.startswith(rule) and at in caught.value.place, str(caught.value)
    assert isinstance(caught.value, FormatError) or not rule


def a_folder(place: Path) -> None:
    place.mkdir()


def a_pipe(place: Path) -> None:
    os.mkfifo(place)


def a_link_out(place: Path) -> None:
    place.symlink_to("/dev/zero")


def a_link_to_itself(place: Path) -> None:
    place.symlink_to(place.name)


FILES = (
    "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json",
    "chat_template.jinja",
)  # fmt: skip


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("instead", [a_folder, a_pipe, a_link_out, a_link_to_itself])
def test_what_is_no_file_is_not_read(
    folder: Callable[[str], Path], file: str, instead: Callable[[Path], None]
) -> None:
    place = folder("llama")
    (place / file).unlink(missing_ok=True)
    instead(place / file)
    with pytest.raises(FormatError) as caught:
        assay.load(place, threads=1, cache_tokens=256)
    assert str(place) in caught.value.place


def test_a_weight_that_is_not_finite_names_the_folder(folder: Callable[[str], Path]) -> None:
    place = folder("llama")
    with (place / "model.safetensors").open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(np.float32(np.nan).tobytes())
    with pytest.raises(FormatError, match="isn't finite") as caught:
        assay.load(place, threads=1, cache_tokens=256)
    assert caught.value.place.startswith(f"{place} › ")

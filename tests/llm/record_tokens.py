"""Records what llama.cpp makes of the corpus: run once, by hand, with the packages named below.

    PYTHONPATH=tests python tests/llm/record_tokens.py

Trains a small vocabulary of each kind on text of the corpus's script (`sentencepiece` 0.2, `tokenizers`) and
gives each the GGUF keys that the public converters write. llama.cpp (`llama-cpp-python` 0.3.36) cuts all
texts, with control tokens and without. Vocabularies and digests of the ids are stored in tests/golden/tokens.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from pathlib import Path

import gguf
import llama_cpp
import numpy as np
import sentencepiece
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, trainers

from llm.corpus import corpus
from llm.variants import digest, variants

GOLDEN = Path(__file__).parents[1] / "golden" / "tokens"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
TEXTS = [text for text in corpus(3000, seed=1) if text and "\0" not in text]


def byte_level() -> dict[str, object]:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=[AddedToken(text, special=True) for text in ("<s>", "<|endoftext|>")],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(TEXTS, trainer)
    made.add_tokens(["<tool>", "▁▁a"])
    fields = json.loads(made.to_str())
    ids = made.get_vocab()
    tokens = sorted(ids, key=lambda token: ids[token])
    kinds = {"<s>": CONTROL, "<|endoftext|>": CONTROL, "<tool>": USER_DEFINED, "▁▁a": USER_DEFINED}
    return {
        "model": "gpt2",
        "tokens": tokens,
        "token_type": [kinds.get(token, NORMAL) for token in tokens],
        "merges": [" ".join(pair) for pair in fields["model"]["merges"]],
        "bos_token_id": 0,
        "eos_token_id": 1,
    }


def sentence_piece(model: str, kind: str, size: int, fallback: bool) -> dict[str, object]:
    stream = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXTS),
        model_writer=stream,
        model_type=kind,
        vocab_size=size,
        byte_fallback=fallback,
        normalization_rule_name="identity",
        user_defined_symbols=["<tool>"],
        remove_extra_whitespaces=False,
        character_coverage=0.98,
        num_threads=1,
        minloglevel=2,
    )
    pieces = sentencepiece.SentencePieceProcessor(model_proto=stream.getvalue())
    numbers = range(pieces.get_piece_size())
    tests = {
        UNKNOWN: pieces.is_unknown, CONTROL: pieces.is_control, UNUSED: pieces.is_unused, BYTE: pieces.is_byte
    }  # fmt: skip
    kinds = [next((kind for kind, test in tests.items() if test(n)), NORMAL) for n in numbers]
    tokens = [pieces.id_to_piece(n) for n in numbers]
    kinds[tokens.index("<tool>")] = USER_DEFINED
    return {
        "model": model,
        "pre": "default",
        "tokens": tokens,
        "scores": [pieces.get_score(n) for n in numbers],
        "token_type": kinds,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }


def word_piece() -> dict[str, object]:
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer, made.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=2500, special_tokens=special, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    ids = made.get_vocab()
    tokens = sorted(ids, key=lambda token: ids[token])
    return {
        "model": "bert",
        "pre": "bert-bge",
        "tokens": [t if t in special else t[2:] if t[:2] == "##" else "▁" + t for t in tokens],
        "token_type": [CONTROL if token in special else NORMAL for token in tokens],
        "cls_token_id": 2,
        "bos_token_id": 2,
        "seperator_token_id": 3,
        "unknown_token_id": 1,
    }


def write(path: Path, fields: dict[str, object]) -> None:
    writer = gguf.GGUFWriter(str(path), "llama")
    for key, value in fields.items():
        name = f"tokenizer.ggml.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, np.ndarray):
            writer.add_array(name, value.tobytes())
        else:
            writer.add_array(name, value)  # type: ignore[arg-type]
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def said(path: Path) -> list[int]:
    peer = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    vocabulary = llama_cpp.llama_model_get_vocab(peer._model.model)

    def ids(text: str, special: bool) -> list[int]:
        data = text.encode()
        room = (llama_cpp.llama_token * (len(data) + 16))()
        count = llama_cpp.llama_tokenize(vocabulary, data, len(data), room, len(room), special, special)
        return list(room[:count])

    return [digest(ids(text, False), ids(text, True)) for text in corpus()]


if __name__ == "__main__":
    vocabularies = {
        "bytes": byte_level(),
        "llama": sentence_piece("llama", "bpe", 3800, True),
        "t5": sentence_piece("t5", "unigram", 3600, False),
        "bert": word_piece(),
    }
    GOLDEN.mkdir(parents=True, exist_ok=True)
    stored = json.dumps(vocabularies, ensure_ascii=False).encode()
    (GOLDEN / "vocabularies.json.gz").write_bytes(gzip.compress(stored, 9, mtime=0))
    with tempfile.TemporaryDirectory() as place:
        found = {}
        for name, fields in variants(vocabularies).items():
            write(Path(place) / "v.gguf", fields)
            found[name] = np.array(said(Path(place) / "v.gguf"), np.uint32)
            print(name, len(found[name]), flush=True)
    np.savez_compressed(GOLDEN / "llama_cpp.npz", **found)

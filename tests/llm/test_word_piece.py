"""WordPiece, from a GGUF file and from a folder.

The oracle of both is the `tokenizers` library's reading of the whole tokenizer.json.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Reference
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from assay.errors import FormatError
from assay.llm.detokenizer import Detokenizer
from assay.llm.folder_tokenizer import FolderTokenizer
from assay.llm.tokenizer import Tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TEXT = [
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "Numbers 123, and (punctuation)!",
    "学习引擎",
]
TEXTS = st.text(max_size=20) | st.text(st.sampled_from("abceinr 你é.,!?[CLS]#\u0301\t한"), max_size=30)


def reference() -> Reference:
    """As BERT's tokenizer.json is; with the limits that sentence embedders store in it."""
    made = Reference(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.train_from_iterator(TEXT, trainers.WordPieceTrainer(vocab_size=200, special_tokens=SPECIAL))
    made.decoder = decoders.WordPiece()
    around = [("[CLS]", 2), ("[SEP]", 3)]
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=around)
    return made


REFERENCE = reference()


def gguf_metadata() -> dict[str, object]:
    """As the public converter writes it: ▁ before what begins a word, nothing before what continues one."""
    ids = REFERENCE.get_vocab()
    tokens = sorted(ids, key=lambda token: ids[token])
    spelled = [t if t[0] == "[" and t[-1] == "]" else t[2:] if t[:2] == "##" else "▁" + t for t in tokens]
    return {
        "tokenizer.ggml.model": "bert",
        "tokenizer.ggml.pre": "bert-bge",
        "tokenizer.ggml.tokens": spelled,
        "tokenizer.ggml.token_type": [3 if token in SPECIAL else 1 for token in tokens],
        "tokenizer.ggml.cls_token_id": 2,
        "tokenizer.ggml.seperator_token_id": 3,
        "tokenizer.ggml.unknown_token_id": 1,
    }


@pytest.fixture(scope="module", params=["folder", "gguf"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    if request.param == "gguf":
        return Tokenizer.from_gguf(gguf_metadata())
    folder = tmp_path_factory.mktemp("bert")
    limited = Reference.from_str(REFERENCE.to_str())
    limited.enable_truncation(4)
    limited.enable_padding(length=8)
    limited.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"cls_token": "[CLS]"}))
    return FolderTokenizer(folder, REFERENCE.get_vocab_size()).tokenizer()


@given(text=TEXTS)
def test_ids_and_text_are_the_librarys(tokenizer: Tokenizer, text: str) -> None:
    whole = tokenizer.encode(text, special=True, bos=True, eos=True)
    assert whole == REFERENCE.encode(text).ids
    assert tokenizer.decode(whole) == REFERENCE.decode(whole)
    detokenizer = Detokenizer(tokenizer)
    assert "".join(map(detokenizer.push, whole)) + detokenizer.finish() == tokenizer.decode(whole)


@given(text=TEXTS)
def test_plain_text_makes_no_control_token(tokenizer: Tokenizer, text: str) -> None:
    assert {0, 2, 3, 4}.isdisjoint(tokenizer.encode(text))


def test_what_surrounds_a_text(tokenizer: Tokenizer) -> None:
    assert (tokenizer.bos_id, tokenizer.closing_id) == (2, 3)
    assert tokenizer.adds_bos and tokenizer.adds_eos


def test_a_vocabulary_without_an_unknown_token_is_refused() -> None:
    metadata = gguf_metadata()
    del metadata["tokenizer.ggml.unknown_token_id"]
    tokens = metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, list)
    metadata["tokenizer.ggml.tokens"] = ["[NONE]" if token == "[UNK]" else token for token in tokens]
    with pytest.raises(FormatError, match="unknown_token_id"):
        Tokenizer.from_gguf(metadata)

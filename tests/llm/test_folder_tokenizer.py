"""Ids of tokenizer.json, held against those of the `tokenizers` library; and hostile files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers import Tokenizer as Reference

from assay.errors import FormatError, RequestError
from assay.llm.detokenizer import Detokenizer
from assay.llm.folder_tokenizer import FolderTokenizer, chat_template
from assay.llm.pretokenizers import PRE_TOKENIZERS
from assay.llm.tokenizer import CONTROL, UNUSED, Tokenizer
from llm.corpus import corpus

TEXTS = corpus(600, seed=3)
TRAINING = [text for text in corpus(600, seed=2) if "<s>" not in text and "</s>" not in text]
SPECIAL = [AddedToken(text, special=True) for text in ("<unk>", "<s>", "</s>")]
BYTES = [AddedToken(f"<0x{byte:02X}>") for byte in range(256)]


def pieces(first: bool, stripped: bool) -> Reference:
    """As the files of llama, mistral and phi3 (with a space before the text) and gemma (without) are."""
    made = Reference(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    spaces = [normalizers.Prepend("▁")] if first else []
    made.normalizer = normalizers.Sequence([*spaces, normalizers.Replace(" ", "▁")])
    trainer = trainers.BpeTrainer(vocab_size=1500, special_tokens=[*SPECIAL, *BYTES], limit_alphabet=500)
    made.train_from_iterator(TRAINING, trainer)
    strip = [decoders.Strip(" ", 1, 0)] if stripped else []
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    made.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    fields = json.loads(
        made.to_str()
    )  # trained as special tokens, so that they come first, but they are none
    fields["added_tokens"] = [
        token for token in fields["added_tokens"] if not token["content"].startswith("<0x")
    ]
    return Reference.from_str(json.dumps(fields))


def unigram() -> Reference:
    """As the files of T5 and XLM-R are, but for their table of characters."""
    made = Reference(models.Unigram())
    made.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=3000, special_tokens=SPECIAL, unk_token="<unk>")
    made.train_from_iterator(TRAINING, trainer)
    made.decoder = decoders.Metaspace()
    made.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 2)])
    return made


def byte_level(pre: str) -> Reference:
    """As the files of Llama 3, Qwen and their like are."""
    made = Reference(models.BPE())
    made.pre_tokenizer = PRE_TOKENIZERS[pre].build()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        TRAINING, trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    made.decoder, made.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    return made


KINDS: dict[str, Callable[[], Reference]] = {
    "llama": lambda: pieces(True, True),
    "gemma": lambda: pieces(False, False),
    "unigram": unigram,
    "llama-bpe": lambda: byte_level("llama-bpe"),
    "gpt-4o": lambda: byte_level("gpt-4o"),
}


@pytest.fixture(scope="module")
def trained() -> dict[str, Reference]:
    return {kind: make() for kind, make in KINDS.items()}


@pytest.fixture(scope="module", params=KINDS)
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Tokenizer, Reference]:
    reference = KINDS[request.param]()
    reference.add_tokens([AddedToken("<tool>", normalized=False)])
    folder = tmp_path_factory.mktemp("folder")
    reference.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
    return FolderTokenizer(folder, reference.get_vocab_size()).tokenizer(), reference


def test_ids_are_the_librarys(both: tuple[Tokenizer, Reference]) -> None:
    tokenizer, reference = both
    for text in TEXTS:
        ids = tokenizer.encode(text, special=True, bos=tokenizer.adds_bos, eos=tokenizer.adds_eos)
        assert ids == reference.encode(text).ids, text


def test_text_is_the_librarys_and_streams(both: tuple[Tokenizer, Reference]) -> None:
    tokenizer, reference = both
    for text in TEXTS:
        ids = tokenizer.encode(text)
        detokenizer = Detokenizer(tokenizer)
        assert "".join(map(detokenizer.push, ids)) + detokenizer.finish() == tokenizer.decode(ids)
        if not text.startswith((" ", "▁")):  # the library's Metaspace drops all spaces of a first token
            assert tokenizer.decode(ids) == reference.decode(ids), text


def test_plain_text_makes_no_control_token(both: tuple[Tokenizer, Reference]) -> None:
    tokenizer, _ = both
    for text in (*TEXTS, "<s>", "a</s>b", " <s> </s>"):
        assert {1, 2}.isdisjoint(tokenizer.encode(text)), text


@given(kinds=st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@pytest.mark.parametrize("kind", KINDS)
def test_added_tokens_have_the_files_ids_in_both_readings(
    tmp_path: Path, trained: dict[str, Reference], kind: str, kinds: list[tuple[bool, bool]]
) -> None:
    """Special and plain ones in any order, some in the model's vocabulary and some, as Qwen's, beyond it."""
    reference = Reference.from_str(trained[kind].to_str())
    size = reference.get_vocab_size()
    inner = iter(token for token in sorted(reference.get_vocab()) if len(token) == 2 and token.isascii())
    names = [next(inner) if known else f"<|{n}|>" for n, (_, known) in enumerate(kinds)]
    for name, (special, _) in zip(names, kinds, strict=True):
        reference.add_tokens([AddedToken(name, special=special, normalized=False)])
    reference.save(str(tmp_path / "tokenizer.json"))
    tokenizer = FolderTokenizer(tmp_path, size + len(names) + 9).tokenizer()
    for name, (special, _) in zip(names, kinds, strict=True):
        number = reference.token_to_id(name)
        assert tokenizer.tokens[number] == name
        assert tokenizer.encode(name, special=True) == [number] == tokenizer.encode(name, special=True)
        if special:
            assert number not in tokenizer.encode(f"a{name}b {name}")
        else:
            assert number in tokenizer.encode(name)
    for tokens in (tokenizer.encode(text) for text in ("".join(names), *TEXTS[:20])):
        assert all(tokens[n] < size + len(names) for n in range(len(tokens)))
        assert {tokenizer.kinds[token] for token in tokens}.isdisjoint({CONTROL, UNUSED})


def test_the_bound_is_sound(both: tuple[Tokenizer, Reference]) -> None:
    """A text that is refused for its length before it is read has more tokens indeed."""
    tokenizer, reference = both
    assert tokenizer.shrinks == (reference.model.__class__ is not models.Unigram)
    for text in TEXTS:
        tokens = tokenizer.encode(text)
        for most in (0, len(tokens) // 3, len(tokens)):
            try:
                assert tokenizer.encode(text, most=most) == tokens
            except RequestError:
                assert len(tokens) > most


def split(pattern: object) -> dict[str, object]:
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


COMPOSE = {"type": "NFC"}
DROP = {"type": "Replace", "pattern": {"String": "ab"}, "content": "a"}
IN_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


@pytest.mark.parametrize(
    ("changes", "shrinks"),
    [
        ({}, 0),
        ({"pre_tokenizer": IN_BYTES}, 1),
        ({"pre_tokenizer": IN_BYTES, "normalizer": COMPOSE}, 8),
        ({"pre_tokenizer": IN_BYTES, "normalizer": DROP}, 0),
        ({"pre_tokenizer": IN_BYTES, "normalizer": {"type": "Lowercase"}}, 0),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {**split({"String": "a"}), "behavior": "Removed"}, IN_BYTES]}}, 0),
    ],
)  # fmt: skip
def test_a_bound_holds_only_where_nothing_is_left_out(
    tmp_path: Path, changes: dict[str, object], shrinks: int
) -> None:
    (tmp_path / "tokenizer.json").write_text(json.dumps(small("BPE") | changes))
    assert FolderTokenizer(tmp_path, 100).tokenizer().shrinks == shrinks


TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.mark.parametrize(
    ("stored", "chosen"),
    [
        (TEMPLATE, TEMPLATE),
        (None, None),
        ([{"name": "default", "template": TEMPLATE}, {"name": "tools", "template": "x"}], TEMPLATE),
        ([{"name": "tools", "template": TEMPLATE}], TEMPLATE),
    ],
)
def test_the_template_that_is_meant(tmp_path: Path, stored: object, chosen: str | None) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": stored}))
    assert chat_template(tmp_path) == chosen


@pytest.mark.parametrize(
    ("stored", "got"),
    [
        ([{"name": "rag", "template": "a"}, {"name": "tools", "template": "b"}], "'rag, tools'"),
        ([], "''"),
        ([7], "''"),
        *(([{"name": "default", "template": TEMPLATE}, junk], "'default'") for junk in (7, None, "x", [])),
        ([{"name": "default", "template": "a"}, {"name": "default", "template": "b"}], "'default'"),
        ([{"name": "default"}], "dict"),
        ({"default": "a"}, "dict"),
    ],
)
def test_templates_that_leave_a_choice_are_refused(tmp_path: Path, stored: object, got: str) -> None:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": stored}))
    with pytest.raises(FormatError) as caught:
        chat_template(tmp_path)
    assert caught.value.place.endswith("tokenizer_config.json › chat_template") and caught.value.got == got


# Hostile files.


def hostile(tmp_path: Path, fields: object) -> FormatError | None:
    """What comes of a tokenizer.json: an error, or a tokenizer that works; both soon."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(fields))
    began = time.process_time()
    try:
        tokenizer = FolderTokenizer(tmp_path, 100).tokenizer()
    except FormatError as error:
        return error
    finally:
        assert time.process_time() - began < 2
    tokenizer.decode(tokenizer.encode("ab c<s>" + "a" * 500 + "!", special=True))
    assert time.process_time() - began < 4
    return None


ADDED = {"id": 1, "content": "<s>", "special": True}
ADDED |= dict.fromkeys(("normalized", "single_word", "lstrip", "rstrip"), False)


def small(kind: str) -> dict[str, object]:
    letters = {"<unk>": 0, "<s>": 1, "a": 2, "b": 3, "ab": 4, "▁": 5, "Ġ": 6}
    model: dict[str, object] = {"type": kind, "vocab": letters, "unk_token": "<unk>"}
    if kind == "BPE":
        model |= {"merges": [["a", "b"]]}
    elif kind == "Unigram":
        model = {"type": kind, "vocab": [[token, -1.0] for token in letters], "unk_id": 0}
    else:
        model |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    return {
        "version": "1.0",
        "added_tokens": [dict(ADDED)],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": []},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
        "model": model,
    }


LACKING = [{**ADDED, "id": 7, "content": "<tool>", "special": False}]
"""A token that the model lacks."""


def framed(number: int, name: str = "<s>") -> dict[str, object]:
    """What puts a token before a text, under a name that needn't be its own."""
    single = [{"SpecialToken": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    tokens = {"A": {"id": "A", "ids": [number], "tokens": [name]}}
    return {"type": "TemplateProcessing", "single": single, "pair": single * 2, "special_tokens": tokens}


# As the files of Llama 3, Qwen 2 and DeepSeek V3 have them; the last with real ends of lines.
IN_USE = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
]


@pytest.mark.parametrize("pattern", IN_USE)
def test_patterns_in_use_are_known(tmp_path: Path, pattern: str) -> None:
    assert hostile(tmp_path, small("BPE") | {"pre_tokenizer": split({"Regex": pattern})}) is None


@pytest.mark.parametrize("kind", ["BPE", "Unigram", "WordPiece"])
def test_the_small_ones_work(tmp_path: Path, kind: str) -> None:
    assert hostile(tmp_path, small(kind)) is None


@pytest.mark.parametrize("changes", [{"dropout": None}, {"dropout": 0.0}, {"dropout": 0}])
def test_numbers_that_change_nothing_may_be_whole(tmp_path: Path, changes: dict[str, object]) -> None:
    fields = small("BPE")
    fields["model"] |= changes  # type: ignore[operator]
    assert hostile(tmp_path, fields) is None


def test_a_token_before_a_text_is_one_of_the_vocabulary(tmp_path: Path) -> None:
    assert hostile(tmp_path, small("BPE") | {"post_processor": framed(1)}) is None


@pytest.mark.parametrize(
    ("at", "value", "place"),
    [
        ("model.type", "WordLevel", "model › type"),
        ("model.dropout", 0.5, "model › dropout"),
        ("model.unk_token", "<no>", "model › unk_token"),
        ("model.unk_token", ["a"], "model › unk_token"),
        ("model.merges", [["a", "x"]], "model"),
        ("model.merges", 7, "model"),
        ("model.vocab", {"a": 0, "b": 0}, "model › unk_token"),
        ("model.vocab", {"<unk>": 0, "<s>": 0}, "model"),
        ("model.vocab", {"<unk>": 0, "a": 2, "b": 3, "ab": 4_000_000_000}, "model › vocab"),
        ("model.vocab", [["a", 0.0]], "model › vocab"),
        ("model.end_of_word_suffix", "</w>", "model › end_of_word_suffix"),
        ("added_tokens", [{"id": 9, "content": "<s>", "special": True}], "added_tokens[0]"),
        ("added_tokens", [{**ADDED, "id": 9}], "added_tokens"),
        ("model.merges", [["ab", "ab"]], "model"),
        ("model.merges", ["a b", "a b b"], "model"),
        ("added_tokens", [{"id": "1", "content": "<s>", "special": True}], "added_tokens[0]"),
        ("pre_tokenizer", split({"Regex": "(a+)+$"}), "pre_tokenizer › Split"),
        ("pre_tokenizer", split({"Regex": ["a"]}), "pre_tokenizer › Split"),
        ("pre_tokenizer", split({"String": ""}), "pre_tokenizer › Split"),
        ("pre_tokenizer", {"type": "Sequence", "pretokenizers": [{"type": "Digits"}] * 2}, "pre_tokenizer"),
        ("pre_tokenizer", {"type": "NoSuch"}, "model"),
        ("normalizer.content", "aa", "normalizer › Replace"),
        ("normalizer", {"type": "Prepend", "prepend": "a" * 99}, "normalizer › Prepend"),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": "AAAA"}, "normalizer › Precompiled"),
        ("normalizer", {"type": "Sequence", "normalizers": [small("BPE")["normalizer"]] * 17}, "normalizer"),
        *(("post_processor", framed(number), "post_processor") for number in (2, 99, 2**31 - 1, 2**32 - 1)),
        ("post_processor", framed(1, "</s>"), "post_processor"),
        ("added_tokens", [ADDED, {**ADDED, "special": False}], "model"),
        ("added_tokens", [*LACKING, {**LACKING[0], "id": 8, "special": True}], "model"),
        ("decoder", {"type": "BPEDecoder", "suffix": "</w>"}, "decoder"),
        ("decoder", None, "decoder"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, at: str, value: object, place: str) -> None:
    fields = small("BPE")
    *outer, last = at.split(".")
    inner = fields
    for name in outer:
        inner = inner[name]  # type: ignore[assignment]
    inner[last] = value
    error = hostile(tmp_path, fields)
    assert error is not None and error.place.partition("tokenizer.json › ")[2].startswith(place), error


JUNK = (
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.floats(-2, 2)
    | st.sampled_from(["", "a", "<s>", "▁", "ByteLevel"])
)


def _spots(value: object) -> list[tuple[object, object]]:
    """Every (container, key) inside of a value."""
    found: list[tuple[object, object]] = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        found += [(value, key), *_spots(inner)]
    return found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(kind=st.sampled_from(["BPE", "Unigram", "WordPiece"]), data=st.data())
def test_damaged_files_are_refused_or_work(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    fields = small(kind)
    for _ in range(data.draw(st.integers(1, 3))):
        spots = _spots(fields)
        place, key = data.draw(st.sampled_from(spots))
        if isinstance(place, dict) and data.draw(st.booleans()):
            del place[key]
        else:
            place[key] = data.draw(
                JUNK | st.lists(JUNK, max_size=3) | st.dictionaries(st.sampled_from("ab"), JUNK)
            )  # type: ignore[index]
    hostile(tmp_path, fields)

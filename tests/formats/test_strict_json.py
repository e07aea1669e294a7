"""JSON that is read, and each way in which it is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.errors import FormatError, ModelNotFoundError
from assay.formats.strict_json import DEPTH_LIMIT, MARK_LIMIT, NUMBER_LIMIT, parse_object, read_json

KEYS = st.text("ab\"\\[{,:é🙂'", max_size=4)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**60), 10**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("ab\"\\[{,:é🙂'", max_size=4), inner, max_size=4)
    ),
)

JSON, PAIR = "JSON as in RFC 8259", "both escapes of a surrogate pair"

# name: (text, rule, place, wanted, got)
CASES: dict[str, tuple[bytes | str, str, str, str, str]] = {
    "nothing": (b"", "not JSON", "line 1, column 1", JSON, "Expecting value"),
    "cut short": ('{"a":\n [1', "not JSON", "line 2, column 4", JSON, "Expecting ',' delimiter"),
    "more behind": ("{} {}", "not JSON", "line 1, column 4", JSON, "Extra data"),
    "a comma too many": (
        '{"a": 1,}', "not JSON", "line 1, column 9", JSON,
        "Expecting property name enclosed in double quotes",
    ),
    "a comment": ("{} // x", "not JSON", "line 1, column 4", JSON, "Extra data"),
    "a control character": (
        '{"a": "\n"}', "not JSON", "line 1, column 8", JSON, "Invalid control character at",
    ),
    "an array": ("[1]", "not a JSON object", "", "an object", "an array"),
    "null": ("null", "not a JSON object", "", "an object", "null"),
    "a number": ("1", "not a JSON object", "", "an object", "an integer"),
    "a key twice": ('{"a": {"b": 1, "c": 2, "b": 1}}', "a key occurs twice", "key 'b'", "each key once", ""),
    "a key twice, escaped": (r'{"b": 1, "\u0062": 1}', "a key occurs twice", "key 'b'", "each key once", ""),
    "NaN": ('{"a": NaN}', "not a finite number", "", "finite numbers", "NaN"),
    "Infinity": ('{"a": [-Infinity]}', "not a finite number", "", "finite numbers", "-Infinity"),
    "too large": ('{"a": -1e999}', "a number is too large", "", "a number that fits 64 bits", "-1e999"),
    "long integer": (
        '{"a": %s}' % ("1" * 65), "a number is too long", "", f"at most {NUMBER_LIMIT} characters",
        "65 characters",
    ),
    "long fraction": (
        '{"a": 0.%s}' % ("1" * 100_000), "a number is too long", "", f"at most {NUMBER_LIMIT} characters",
        "100002 characters",
    ),
    "not UTF-8": (b'{"a": "\xff"}', "not text", "", "UTF-8", "bytes ff 22 7d at byte 7"),
    "UTF-16": ("{}".encode("utf-16"), "not text", "", "UTF-8", "bytes ff fe 7b 00 at byte 0"),
    "a byte order mark": (
        "{}".encode("utf-8-sig"), "not JSON", "line 1, column 1", JSON,
        "Unexpected UTF-8 BOM (decode using utf-8-sig)",
    ),
    "a surrogate as bytes": (
        '{"a": "\ud800"}'.encode(errors="surrogatepass"), "not text", "", "UTF-8",
        "bytes ed a0 80 22 at byte 7",
    ),
    "the first half": (
        r'{"a": "\uD83D"}', "half a character", "", PAIR, r"'\\uD83D' at byte 7",
    ),
    "two first halves": (
        r'{"a": "\ud83d\ud83d\ude42"}', "half a character", "", PAIR,
        r"'\\ud83d' at byte 7",
    ),
    "the second half": (
        r'{"a": "\\\ude42"}', "half a character", "", PAIR, r"'\\ude42' at byte 9",
    ),
    "halves that are the wrong way round": (
        r'{"\ude42\ud83d": 1}', "half a character", "", PAIR, r"'\\ude42' at byte 2",
    ),
    "too deep": (
        '{"a":' * 33 + "1" + "}" * 33, "nested too deep", "", f"at most {DEPTH_LIMIT} levels", "33",
    ),
    "far too deep": ("[" * 400_000, "nested too deep", "", f"at most {DEPTH_LIMIT} levels", "400000"),
    "deep behind a string": (
        r'{"a\\": "\"[{", "b": ' + "[" * 32 + "]" * 32 + "}", "nested too deep", "",
        f"at most {DEPTH_LIMIT} levels", "33",
    ),
    "too many": (
        '{"a":[' + "0," * MARK_LIMIT + "0]}", "too many values", "",
        f"at most {MARK_LIMIT} commas, colons and brackets", str(MARK_LIMIT + 3),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, tmp_path: Path) -> None:
    text, *expected = CASES[name]
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(FormatError) as caught:
        parse_object(data)
    error = caught.value
    assert [error.rule, error.place, error.want, error.got] == expected
    (tmp_path / "x.json").write_bytes(data)
    with pytest.raises(FormatError) as caught:
        read_json(tmp_path / "x.json", 1 << 23)
    place = str(tmp_path / "x.json")
    assert caught.value.place == (f"{place} › {expected[1]}" if expected[1] else place)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), VALUES, max_size=5),
    st.booleans(),
)
@example({"a": '\\\\"[[[{{{', "b": '"', "\\": "\\u d800 \\ud800 🙂"}, True)
@example({"max": 10**30, "sign": -0.0, "least": 5e-324}, False)
def test_reads_what_json_writes(value: dict[str, object], escaped: bool) -> None:
    data = json.dumps(value, ensure_ascii=escaped).encode()
    read = parse_object(data)
    assert read == value and json.dumps(read) == json.dumps(value)  # the latter tells 1 from 1.0 and True


@given(st.text('{}[]",:\\u1dD8cE0a \n', max_size=60))
@example('{"a\\": [[[[')
@example('{"\\ud83d\\ude42": 1}')
def test_reads_what_json_reads(text: str) -> None:
    """What the parser of Python takes, and we don't, breaks a rule that is ours."""
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    try:
        assert parse_object(text.encode()) == expected
    except FormatError as error:
        ours = ("a key occurs twice", "half a character", "a number is too large")
        assert error.rule in ours or not isinstance(expected, dict)


def test_brackets_in_strings_do_not_count() -> None:
    assert parse_object(b'{"a": "' + b"[" * (MARK_LIMIT + 1) + b'"}') == {"a": "[" * (MARK_LIMIT + 1)}
    assert parse_object(b'{"a":' + b"[" * 31 + b"]" * 31 + b"}")


def test_minus_zero_is_no_integer() -> None:
    assert type(parse_object(b'{"a": -0}')["a"]) is float


def test_limit(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    assert read_json(path, 8) == {"a": 1}
    with pytest.raises(FormatError) as caught:
        read_json(path, 7)
    assert (caught.value.rule, caught.value.want) == ("the file is too long", "at most 7 bytes")
    os.truncate(path, 1 << 40)
    with pytest.raises(FormatError, match="too long"):
        read_json(path, 1 << 20)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError) as missing:
        read_json(tmp_path / "x.json", 8)
    assert missing.value.want == "a JSON file"
    os.mkfifo(tmp_path / "fifo")
    for path, got in ((tmp_path, "a folder"), (tmp_path / "fifo", "a pipe")):
        with pytest.raises(FormatError) as caught:
            read_json(path, 8)
        assert (caught.value.rule, caught.value.got, caught.value.place) == ("not a file", got, str(path))


def test_shrinks_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"a": 1}')
    real, left = os.preadv, [4, 0]
    monkeypatch.setattr(os, "preadv", lambda fd, out, at: real(fd, [out[0][: left.pop(0)]], at))
    with pytest.raises(FormatError) as caught:
        read_json(path, 8)
    assert caught.value.rule == "the file was cut short while it was read"
    assert (caught.value.want, caught.value.got) == ("8 bytes at byte 0", "4 bytes")

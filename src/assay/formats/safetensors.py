"""Safetensors as Hugging Face publishes them: one file, or shards and an index. Trusts nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from assay.errors import FormatError, within
from assay.formats.files import TensorFiles, member, opened
from assay.formats.safetensors_header import HEADER_LIMIT, Room, read_header
from assay.formats.strict_json import JsonValue, kind, read_json
from assay.formats.tensors import TensorInfo, near, quoted

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD_LIMIT = 256


def open_safetensors(path: Path) -> TensorFiles:
    """The file at `path`; or, in a folder, `model.safetensors`, or the shards that
    `model.safetensors.index.json` names. Headers are checked, and held against the index; no data is read.

    The index's `total_size` is not held to: nothing reads it, and published ones are often wrong.

    Raises ModelNotFoundError where nothing is there, FormatError for all else that isn't sound.
    """
    if not is_folder(path):
        return _open(path, [(path, None)])
    single, index = (os.path.lexists(path / name) for name in (SINGLE, INDEX))
    if not index:
        if not single:
            raise _no_weights(path)
        return _open(path, [(member(path, SINGLE), None)])
    shards = _shards(path)
    if single and SINGLE not in shards:
        rule, hint = "weights in one file and in shards as well", "remove those that aren't meant"
        raise FormatError(rule, place=str(path), want=f"{SINGLE} or {INDEX}", got="both", hint=hint)
    return _open(path, [(member(path, name), names) for name, names in shards.items()])


def _open(path: Path, files: Sequence[tuple[Path, list[str] | None]]) -> TensorFiles:
    """These files, each with the names of the tensors that the index says are in it."""
    room = Room()
    found: list[tuple[Path, int, Mapping[str, TensorInfo]]] = []
    with ExitStack() as stack:
        for each, listed in files:
            with opened(each, "a safetensors file, or a folder with one") as (fd, size):
                tensors, room = read_header(fd, size, room)
                if listed is not None:
                    _check_listed(tensors, listed)
                found.append((each, os.dup(fd), tensors))
            stack.callback(os.close, found[-1][1])
        stack.pop_all()
    return TensorFiles(path, found)


def _check_listed(found: Mapping[str, TensorInfo], listed: list[str]) -> None:
    want, got = f"the {len(listed)} tensors of the index", f"{len(found)} tensors"
    hint = "shards and index aren't of one model: fetch them again"
    missing = next((name for name in listed if name not in found), None)
    if missing is not None:
        rule, place = "a tensor is missing that the index places here", f"tensor {quoted(missing)}"
        raise FormatError(rule, place=place, want=want, got=got, hint=near(missing, found) or hint)
    if len(found) > len(listed):
        known = set(listed)
        place = f"tensor {quoted(next(name for name in found if name not in known))}"
        rule = "a tensor that the index doesn't place here"
        raise FormatError(rule, place=place, want=want, got=got, hint=hint)


def _shards(folder: Path) -> dict[str, list[str]]:
    """The names of the tensors in each file, as the folder's index has them."""
    path = member(folder, INDEX)
    table = read_json(path, HEADER_LIMIT)
    with within(str(path)):
        return _shards_of(table)


def _shards_of(table: dict[str, JsonValue]) -> dict[str, list[str]]:
    surplus = next((key for key in table if key not in ("metadata", "weight_map")), None)
    if surplus is not None:
        raise FormatError("an unknown key", place=f"key {quoted(surplus)}", want="metadata and weight_map")
    places = table.get("weight_map")
    if type(places) is not dict or not places:
        got = kind(places) if "weight_map" in table else "nothing"
        want = "an object that gives each tensor's file"
        raise FormatError("an index of another form", place="key 'weight_map'", want=want, got=got)
    shards: dict[str, list[str]] = {}
    for name, file in places.items():
        if type(file) is not str:
            place = f"key 'weight_map' › tensor {quoted(name)}"
            raise FormatError("an index of another form", place=place, want="a file's name", got=kind(file))
        shards.setdefault(file, []).append(name)
    if len(shards) > SHARD_LIMIT:
        want = f"at most {SHARD_LIMIT} files"
        raise FormatError("too many files", place="key 'weight_map'", want=want, got=str(len(shards)))
    return shards


def is_folder(path: Path) -> bool:
    """Whether a folder is there that can be looked at."""
    try:
        return path.is_dir()
    except OSError:  # to open it will say why
        return False


def _no_weights(folder: Path) -> FormatError:
    pickled = (folder / "pytorch_model.bin").exists() or (folder / "pytorch_model.bin.index.json").exists()
    got, hint = "neither", "give the folder that has config.json, or a .safetensors file"
    if pickled:
        got = "pytorch_model.bin"
        hint = "pickled weights are not read, because they are code: convert them to safetensors"
    want = f"{SINGLE}, or {INDEX} and its files"
    return FormatError("a folder without weights", place=str(folder), want=want, got=got, hint=hint)

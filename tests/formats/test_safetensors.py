"""Sound safetensors: what is read, in one file and in shards, and what stays in memory."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.errors import FormatError, ModelNotFoundError
from assay.formats.files import TensorFiles
from assay.formats.safetensors import INDEX, SINGLE, open_safetensors
from assay.formats.safetensors_header import TYPES
from assay.tensor import dtype as dtypes
from formats.safetensors_bytes import WIDTHS, built, shard, sound, table, write_index

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def assert_agrees(ours: TensorFiles, *files: Path) -> None:
    """Names, shapes, types, and the bytes of all weights, as the `safetensors` package has them."""
    theirs = {name: each for file in files for name, each in safetensors.deserialize(file.read_bytes())}
    assert set(ours.tensors) == set(theirs)
    for name, other in theirs.items():
        info = ours.tensors[name]
        assert info.name == name and info.shape == tuple(other["shape"])
        assert info.dtype == TYPES[other["dtype"]] and info.nbytes == len(other["data"])
        if other["dtype"] in ("F32", "F16", "BF16"):
            raw = ours.raw(name)
            assert raw.dtype == np.uint8 and raw.tobytes() == bytes(other["data"])


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two shards."""
    return shard(
        tmp_path,
        {
            SHARDS[0]: table({"b": ("BF16", (4, 3)), "a": ("F32", (4,))}),
            SHARDS[1]: table({"c": ("F16", (2, 3)), "ids": ("I64", (1, 5))}),
        },
    )


def test_written_by_the_package(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "f32": rng.normal(size=(3, 5)).astype(np.float32),
        "f16": rng.normal(size=(7,)).astype(np.float16),
        "f64": rng.normal(size=(2, 2)),
        "ids": np.arange(6).reshape(1, 6),
        "mask": np.array([True, False]),
        "scalar": np.array(1.5, np.float32),
        "none": np.zeros((0, 4), np.float32),
    }
    path = tmp_path / SINGLE
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np"})
    for place in (tmp_path, path):
        with open_safetensors(place) as ours:
            assert ours.path == place
            assert_agrees(ours, path)
            for name, array in arrays.items():
                info = ours.tensor(name)
                assert (info.shape, info.dtype.numpy, info.nbytes) == (array.shape, array.dtype, array.nbytes)
            values = ours.raw("f32").view(np.float32).reshape(3, 5)
            assert np.array_equal(values, arrays["f32"])


def test_every_type(tmp_path: Path) -> None:
    """All types of the format are listed with their sizes; all are read."""
    path = tmp_path / SINGLE
    path.write_bytes(sound(table({name: (name, (3, 8)) for name in WIDTHS})))
    with open_safetensors(tmp_path) as ours:
        assert_agrees(ours, path)
        assert set(TYPES) == set(WIDTHS)
        for name, width in WIDTHS.items():
            info = ours.tensors[name]
            assert info.nbytes == 24 * width // 8 == info.dtype.nbytes(24)
            assert ours.raw(name).nbytes == info.nbytes


def test_types_that_operators_know_are_theirs() -> None:
    for theirs in TYPES.values():
        assert dtypes.BY_NAME.get(theirs.name, theirs) is theirs
    assert set(dtypes.WEIGHT_TYPES[:3]) <= set(TYPES.values())
    assert len({dtype.name for dtype in TYPES.values()}) == len(TYPES)


def test_shards(two: Path) -> None:
    with open_safetensors(two) as ours:
        assert list(ours.tensors) == ["b", "a", "c", "ids"]
        assert_agrees(ours, *(two / name for name in SHARDS))


def test_an_index_of_one_file(tmp_path: Path) -> None:
    shard(tmp_path, {SINGLE: table({"a": ("F32", (2,))})})
    with open_safetensors(tmp_path) as ours:
        assert_agrees(ours, tmp_path / SINGLE)


@pytest.mark.parametrize("metadata", [None, {}, {"total_size": 1}, {"total_size": 1.5e9, "other": [1]}])
def test_total_size_is_not_held_to(two: Path, metadata: object) -> None:
    places = {"a": SHARDS[0], "b": SHARDS[0], "c": SHARDS[1], "ids": SHARDS[1]}
    write_index(
        two, {"weight_map": places} if metadata is None else {"metadata": metadata, "weight_map": places}
    )
    open_safetensors(two).close()


def test_links_inside_the_folder(two: Path) -> None:
    (two / "blobs").mkdir()
    for name in (*SHARDS, INDEX):
        (two / name).rename(two / "blobs" / name)
        (two / name).symlink_to(Path("blobs") / name)
    (two.parent / f"{two.name}-linked").symlink_to(two)
    for folder in (two, two.parent / f"{two.name}-linked"):
        with open_safetensors(folder) as ours:
            assert len(ours.tensors) == 4


def test_names_of_all_kinds(tmp_path: Path) -> None:
    names = ["🙂", "a b", 'quo"te', "back\\slash", "line\nbreak", "NUL\0", "../up", "n" * 1024]
    (tmp_path / SINGLE).write_bytes(sound(table(dict.fromkeys(names, ("F32", (1,))))))
    with open_safetensors(tmp_path) as ours:
        assert_agrees(ours, tmp_path / SINGLE)
        assert list(ours.tensors) == names


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
            "__metadata__".__ne__
        ),
        st.tuples(st.sampled_from(sorted(WIDTHS)), st.lists(st.integers(0, 3), max_size=4)),
        max_size=8,
    ),
    order=st.randoms(use_true_random=False),
    spaces=st.integers(0, 9),
)
def test_any_table(
    tmp_path: Path, rows: dict[str, tuple[str, list[int]]], order: random.Random, spaces: int
) -> None:
    """Tables of any kind, in an order that isn't that of the data, and data that aren't aligned."""
    whole = {
        name: (kind, (*shape, 4) if WIDTHS[kind] < 8 else tuple(shape))
        for name, (kind, shape) in rows.items()
    }
    entries = table(whole)
    size = sum(WIDTHS[kind] * int(np.prod(shape)) // 8 for kind, shape in whole.values())
    listed = list(entries.items())
    order.shuffle(listed)
    path = tmp_path / SINGLE
    path.write_bytes(
        built(json.dumps(dict(listed)) + " " * spaces, np.arange(size).astype(np.uint8).tobytes())
    )
    with open_safetensors(path) as ours:
        assert list(ours.tensors) == [name for name, _ in listed]
        assert_agrees(ours, path)


def test_elements_are_aligned_whatever_the_file_does(tmp_path: Path) -> None:
    """Kernels load whole elements; early files have headers of any length."""
    values = np.arange(6, dtype=np.float32)
    text = '{"w":{"dtype":"F32","shape":[6],"data_offsets":[0,24]}}'
    for spaces in range(8):
        path = tmp_path / f"{spaces}.safetensors"
        path.write_bytes(built(text + " " * spaces, values.tobytes()))
        with open_safetensors(path) as ours:
            raw = ours.raw("w")
            assert raw.ctypes.data % 4 == 0 and not raw.flags.writeable
            assert np.array_equal(raw.view(np.float32), values)


def test_raw_outlives_the_files(two: Path) -> None:
    with open_safetensors(two) as ours:
        view = ours.raw("a")
        expected = view.tobytes()
        assert not view.flags.writeable
    assert view.tobytes() == expected
    with pytest.raises(FormatError, match="the file is closed"):
        ours.raw("a")
    ours.close()


def test_a_file_that_is_cut_short_later(two: Path) -> None:
    with open_safetensors(two) as ours:
        (two / SHARDS[1]).write_bytes(b"")
        assert ours.raw("a").nbytes == 16
        with pytest.raises(FormatError) as caught:
            ours.raw("c")
        assert caught.value.rule == "the file was cut short while it was read"
        assert caught.value.place == str(two / SHARDS[1])


def test_no_data_is_read(tmp_path: Path) -> None:
    """A sparse file of a terabyte opens at once."""
    path = tmp_path / SINGLE
    path.write_bytes(built('{"w":{"dtype":"F32","shape":[262144,1048576],"data_offsets":[0,1099511627776]}}'))
    with path.open("ab") as file:
        file.truncate(path.stat().st_size + (1 << 40))
    with open_safetensors(tmp_path) as ours:
        assert ours.tensor("w").nbytes == 1 << 40


def test_files_are_not_leaked(two: Path) -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = handles()
    for _ in range(10):
        with open_safetensors(two):
            assert handles() > before
        assert handles() == before
    whole = (two / SHARDS[1]).read_bytes()
    (two / SHARDS[1]).write_bytes(whole[:-1])
    for _ in range(10):
        with pytest.raises(FormatError):
            open_safetensors(two)
    assert handles() == before


def test_missing_tensor(two: Path) -> None:
    (two / SHARDS[0]).rename(two / "x")
    shard(two, {SHARDS[0]: table({"model.norm.weight": ("F32", (2,))})})
    with open_safetensors(two) as ours:
        for use in (ours.tensor, ours.raw):
            with pytest.raises(FormatError) as caught:
                use("model.norm.weights")
            assert caught.value.place == f"{two} › tensor 'model.norm.weights'"
            assert caught.value.rule == "a tensor is missing"
            assert caught.value.hint == "near it: 'model.norm.weight'"


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError) as caught:
        open_safetensors(tmp_path / "x.safetensors")
    assert caught.value.want == "a safetensors file, or a folder with one"
    with pytest.raises(FormatError, match="can't be read"):
        open_safetensors(Path("a\0b"))

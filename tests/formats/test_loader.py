"""The data loader against NumPy's own reading of the same files."""

from __future__ import annotations

import hashlib
import json
import os
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from assay import DataLoader, FormatError, ModelNotFoundError, RequestError
from assay.formats.loader import Permutation
from formats.safetensors_bytes import built, entry

RECORDS = np.arange(103 * 2 * 3, dtype=np.float32).reshape(103, 2, 3)
POINTS = np.array([(number, number / 3) for number in range(103)], [("label", "<i2"), ("x", ">f8")])


def write(folder: Path, kind: str, records: np.ndarray) -> tuple[Path, dict[str, object]]:
    """A file of these records, and the arguments that go with it."""
    path = folder / f"data.{kind}"
    match kind:
        case "npy":
            np.save(path, records)
            return path, {}
        case "npz":
            np.savez(path, odd=np.zeros(3, np.uint8), a=records)
            return path, {"name": "a"}
        case "safetensors":
            save_file({"odd": np.zeros(3, np.uint8), "a": records}, path)
            return path, {"name": "a"}
        case _:
            records.tofile(path)
            return path, {"dtype": records.dtype, "shape": records.shape[1:]}


def whole(loader: DataLoader) -> np.ndarray:
    return np.concatenate([batch.copy() for batch in loader])


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "bin"])
@pytest.mark.parametrize("records", [RECORDS, POINTS], ids=["floats", "structures"])
def test_every_format_in_order_and_shuffled(tmp_path: Path, kind: str, records: np.ndarray) -> None:
    if kind == "safetensors" and records is POINTS:
        pytest.skip("safetensors has no structures")
    path, arguments = write(tmp_path, kind, records)
    plain = DataLoader(path, batch=10, **arguments)
    batches = list(plain)
    assert [len(batch) for batch in batches] == [10] * 10 + [3] and len(plain) == 11
    assert all(not batch.flags.writeable and not batch.flags.owndata for batch in batches)
    starts = [batch.__array_interface__["data"][0] for batch in batches]
    assert set(np.diff(starts)) == {10 * records[0].nbytes}  # one after the other in one map: views
    assert np.array_equal(np.concatenate(batches), records)
    assert (plain.dtype, plain.shape, plain.records) == (records.dtype, records.shape[1:], 103)
    shuffled = DataLoader(path, batch=10, seed=3, **arguments)
    order = Permutation(103, 3, 0)(0, 103)
    assert np.array_equal(whole(shuffled), records[order])
    assert not np.array_equal(whole(shuffled), records[order])  # the second epoch has another order


def test_memory_is_reused_on_request(tmp_path: Path) -> None:
    path, _ = write(tmp_path, "npy", RECORDS)
    for reuse in (True, False):
        held = list(DataLoader(path, batch=10, seed=1, reuse=reuse))
        assert np.shares_memory(held[0], held[1]) == reuse
    same = DataLoader(path, batch=10, seed=1, reuse=True)
    assert np.array_equal(whole(same), whole(DataLoader(path, batch=7, seed=1)))


@pytest.mark.parametrize("batch", [1, 5000, 9000, 20000])
def test_orders_are_worked_out_ahead_in_parts_of_any_size(tmp_path: Path, batch: int) -> None:
    path = tmp_path / "many.npy"
    count = 200 if batch == 1 else 20000
    np.save(path, np.arange(count))
    expected = Permutation(count, 4, 0)(0, count)
    assert np.array_equal(whole(DataLoader(path, batch=batch, seed=4)), expected)


@given(
    count=st.integers(1, 60),
    world=st.integers(1, 7),
    batch=st.integers(1, 70),
    other=st.integers(1, 70),
    seed=st.none() | st.integers(0, 3),
    stop=st.integers(0, 5),
)
@settings(max_examples=60)
def test_shards_are_each_record_once_and_positions_resume(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    world: int,
    batch: int,
    other: int,
    seed: int | None,
    stop: int,
) -> None:
    path = tmp_path_factory.getbasetemp() / f"{count}.npy"
    np.save(path, np.arange(count))
    world = min(world, count)
    parts = []
    for rank in range(world):
        common = {"seed": seed, "rank": rank, "world": world}
        two = DataLoader(path, batch=batch, **common)
        expected = np.concatenate([whole(two), whole(two)])
        parts.append(expected[: len(expected) // 2])
        first = DataLoader(path, batch=batch, **common)
        batches = iter(first)
        seen = [next(batches).copy() for _ in range(min(stop, len(first)))]
        saved = json.loads(json.dumps(first.position))
        rest = DataLoader(path, batch=other, **common, position=saved)
        while rest.position["epoch"] < 2:
            seen += [each.copy() for each in rest]
        assert np.array_equal(np.concatenate(seen), expected)
    assert sorted(np.concatenate(parts)) == list(range(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def shuffled_by_hand(count: int, seed: int, epoch: int) -> list[int]:
    """The order as the class describes it, in integers of any size."""
    rows = next(each for each in range(1, count + 1) if each * each >= count)
    columns = next(each for each in range(1, count + 1) if each * rows >= count)
    names = [f"{seed} {epoch} {number}".encode() for number in range(6 if count > 1000 else 24)]
    keys = [int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") for name in names]

    def once(number: int) -> int:
        halves = list(divmod(number, columns))
        for number, key in enumerate(keys):
            side = number % 2
            mixed = (halves[1 - side] ^ key) * 0x9E3779B97F4A7C15 % 2**64
            mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93 % 2**64 >> 32
            bound = (rows, columns)[side]
            halves[side] = (halves[side] + (mixed * bound >> 32)) % bound
        return halves[0] * columns + halves[1]

    order = []
    for place in range(count):
        found = once(place)
        while found >= count:
            found = once(found)
        order.append(found)
    return order


@pytest.mark.parametrize("count", [1, 2, 3, 7, 100, 1000, 1001, 1500])
def test_an_order_is_a_permutation_and_as_described(count: int) -> None:
    order = Permutation(count, 5, 2)(0, count)
    assert sorted(order) == list(range(count))
    assert list(order) == shuffled_by_hand(count, 5, 2)
    middle = Permutation(count, 5, 2)(count // 3, count // 2)
    assert np.array_equal(middle, order[count // 3 : count // 2])


def test_an_order_never_changes() -> None:
    """Saved positions rest on it: these are the orders of the first version."""
    assert Permutation(10, 0, 0)(0, 10).tolist() == [3, 5, 6, 9, 8, 1, 2, 7, 4, 0]
    last = Permutation(1 << 40, 7, 1)(1 << 39, (1 << 39) + 3)
    assert last.tolist() == [1014004439726, 452098216687, 867551094606]


@pytest.mark.parametrize("count", [5, 1200])
def test_orders_are_as_good_as_drawn(count: int) -> None:
    """Two neighbours' values over many epochs: chi-squared per degree of freedom, whose deviation is
    sqrt(2 / degrees), lies within five of them from 1.
    """
    epochs = range(1000)
    pairs = np.stack([Permutation(count, 11, epoch)(count // 2, count // 2 + 2) for epoch in epochs])
    for values, kinds in ((pairs[:, 0], count), ((pairs[:, 1] - pairs[:, 0]) % count - 1, count - 1)):
        expected = len(epochs) / kinds
        found = np.bincount(values, minlength=kinds)
        assert len(found) == kinds
        ratio = np.sum((found - expected) ** 2 / expected) / (kinds - 1)
        assert abs(ratio - 1) < 5 * np.sqrt(2 / (kinds - 1))


def header(text: str, version: int = 1) -> bytes:
    """An .npy file up to its data, of this description."""
    raw = text.encode("latin1") + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(raw).to_bytes(2 * version, "little") + raw


def described(descr: str = "'<f4'", order: str = "False", shape: str = "(2, 3)") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}"


BROKEN = {
    "empty": (b"", "not an .npy file, or a damaged one"),
    "magic": (b"\x93NUMPX\1\0" + bytes(100), "not an .npy file, or a damaged one"),
    "version": (header(described(), 3) + bytes(24), "not an .npy file, or a damaged one"),
    "header": (header(described())[:30], "not an .npy file, or a damaged one"),
    "long header": (header(described() + " " * 20000, 2) + bytes(24), "not an .npy file, or a damaged one"),
    "huge header": (
        b"\x93NUMPY\2\0" + (1 << 31).to_bytes(4, "little") + bytes(2 << 20),
        "not an .npy file, or a damaged one",
    ),
    "deep": (header("(" * 5000), "not an .npy file, or a damaged one"),
    "call": (header("print(1)"), "not an .npy file, or a damaged one"),
    "unhashable": (header("{[]: 1}"), "not an .npy file, or a damaged one"),
    "type": (header(described("'<q9'")) + bytes(24), "not an .npy file, or a damaged one"),
    "objects": (header(described("'|O'")) + bytes(48), "elements that can't be mapped"),
    "arrays in arrays": (header(described("'(2,)<f4'")) + bytes(48), "elements that can't be mapped"),
    "no bytes": (header(described("'|V0'")), "elements that can't be mapped"),
    "columns": (header(described(order="True")) + bytes(24), "an array in column-major order"),
    "a number": (header(described(shape="()")) + bytes(4), "an array without records"),
    "none": (header(described(shape="(0, 3)")), "an array without records"),
    "empty records": (header(described(shape="(3, 0)")), "an array without records"),
    "negative": (header(described(shape="(-2, -3)")) + bytes(24), "an array without records"),
    "rank": (header(described(shape=f"({'1, ' * 33})")) + bytes(4), "an array without records"),
    "huge": (header(described(shape=f"({1 << 62}, {1 << 62})")) + bytes(24), "the file is cut short"),
    "short": (header(described()) + bytes(23), "the file is cut short"),
    "surplus": (header(described()) + bytes(25), "bytes that belong to no record"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_npy_files(tmp_path: Path, name: str) -> None:
    data, rule = BROKEN[name]
    path = tmp_path / "x.npy"
    path.write_bytes(data)
    with pytest.raises(FormatError) as caught:
        DataLoader(path, batch=1)
    assert caught.value.rule == rule and str(path) in caught.value.place


def test_other_files_that_are_not_sound(tmp_path: Path) -> None:
    def refused(path: Path, **arguments: object) -> FormatError:
        with pytest.raises(FormatError) as caught:
            DataLoader(path, batch=1, **arguments)
        return caught.value

    raw = tmp_path / "x.bin"
    raw.write_bytes(bytes(25))
    assert refused(raw, dtype="f4", shape=(3,)).rule == "bytes that belong to no record"
    raw.write_bytes(bytes(11))
    assert refused(raw, dtype="f4", shape=(3,)).rule == "an array without records"
    assert refused(raw, dtype="O").rule == "elements that can't be mapped"
    assert refused(tmp_path, dtype="f4").got == "a folder"
    packed = tmp_path / "packed.npz"
    np.savez_compressed(packed, records=RECORDS)
    error = refused(packed, name="records")
    assert error.rule == "a compressed array can't be mapped" and "savez" in error.hint
    error = refused(packed, name="record")
    assert error.rule == "no such array" and error.hint == "near it: 'records'"
    packed.write_bytes(packed.read_bytes()[:-9])
    assert refused(packed, name="records").rule == "not an archive, or a damaged one"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", header(described()) + bytes(23))
    assert refused(packed, name="a").rule == "the file is cut short"
    far = header(described("'<u1'", shape=f"({1 << 30},)"))
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", far + bytes(24))
    claimed = [(len(far) + size).to_bytes(4, "little") * 2 for size in (24, 1 << 30)]
    packed.write_bytes(packed.read_bytes().replace(*claimed))  # its two sizes, before it and in the table
    assert refused(packed, name="a").rule == "the file is cut short"
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(12000):
            archive.writestr(f"{number:050}.npy", b"")
    error = refused(packed, name="a")
    assert error.rule == "not an archive, or a damaged one" and "bytes to describe" in error.got
    tensors = tmp_path / "x.safetensors"
    tensors.write_bytes(built(json.dumps({"w": entry("F8_E4M3", (4,))}), bytes(4)))
    assert refused(tensors, name="w").got == "float8_e4m3fn"
    assert refused(tensors, name="v").rule == "no such array"
    with pytest.raises(ModelNotFoundError):
        DataLoader(tmp_path / "none.npy", batch=1)


@given(rng=st.randoms(use_true_random=False), kind=st.sampled_from(["npy", "npz"]))
@settings(max_examples=150)
def test_damaged_files_are_refused_or_read_as_numpy_reads_them(
    tmp_path_factory: pytest.TempPathFactory, rng: random.Random, kind: str
) -> None:
    path, arguments = write(tmp_path_factory.mktemp("damaged"), kind, RECORDS[:5])
    data = bytearray(path.read_bytes())
    for _ in range(rng.randint(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])
    try:
        found = whole(DataLoader(path, batch=2, **arguments))
    except FormatError:
        return
    if kind == "npy":
        expected = np.load(path)
    else:
        with zipfile.ZipFile(path) as archive, archive.open("a.npy") as member:
            member._expected_crc = None  # it is checked by reading all, which a loader doesn't
            expected = np.lib.format.read_array(member)
    np.testing.assert_array_equal(found, expected)


def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path, _ = write(tmp_path, "npy", RECORDS)
    for seed in (None, 1):
        np.save(path, RECORDS)
        batches = iter(DataLoader(path, batch=10, seed=seed))
        next(batches)
        os.truncate(path, 1000)
        with pytest.raises(FormatError) as caught:
            next(batches)
        assert caught.value.rule == "the file was cut short while it was read"


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"batch": 0}, "batch"), ({"batch": True}, "batch"), ({"batch": 2.0}, "batch"),
        ({"world": 104}, "world"), ({"rank": 1}, "rank"), ({"rank": -1, "world": 2}, "rank"),
        ({"seed": -1}, "seed"), ({"seed": "1"}, "seed"), ({"reuse": True}, "reuse"),
        ({"name": "a"}, "name"), ({"dtype": "f4"}, "dtype"), ({"shape": (2,)}, "shape"),
        ({"position": {}}, "position"), ({"position": 3}, "position"),
    ],
)  # fmt: skip
def test_fields_out_of_range(tmp_path: Path, changes: dict[str, object], place: str) -> None:
    path, _ = write(tmp_path, "npy", RECORDS)
    with pytest.raises(RequestError) as caught:
        DataLoader(path, **{"batch": 10, **changes})
    assert caught.value.place == place


def test_fields_that_a_raw_file_needs(tmp_path: Path) -> None:
    path, _ = write(tmp_path, "bin", RECORDS)
    bad = ({}, {"dtype": "nonsense"}, {"dtype": "f4", "shape": (0,)}, {"dtype": "f4", "shape": (-2, -3)})
    for fields, place in zip(bad, ("dtype", "dtype", "shape", "shape"), strict=True):
        with pytest.raises(RequestError) as caught:
            DataLoader(path, batch=1, **fields)
        assert caught.value.place == place


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("seed", 2), ("seed", None), ("records", 102), ("rank", 1), ("world", 3)),
        *(("epoch", -1), ("epoch", 1.5), ("record", 103), ("record", None)),
    ],
)
def test_a_position_of_another_order(tmp_path: Path, key: str, value: object) -> None:
    path, _ = write(tmp_path, "npy", RECORDS)
    position = DataLoader(path, batch=10, seed=1).position | {key: value}
    with pytest.raises(RequestError) as caught:
        DataLoader(path, batch=10, seed=1, position=position)
    assert caught.value.place == f"position › {key}"

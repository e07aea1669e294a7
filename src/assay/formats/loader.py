"""A data loader: batches of records from a mapped file, sharded, shuffled by seed, resumable."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from assay.errors import FormatError, RequestError, shown
from assay.formats.records import map_records

_AHEAD = 8192
"""Places whose records are worked out at once: few calls for each, and their numbers stay in the cache."""
_HALF = np.uint64(32)
_MULTIPLIERS = np.array([0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93], np.uint64)
"""Odd numbers of many bits; each product brings what its lower bits say to the upper ones."""


class Permutation:
    """A shuffled order of 0 … count - 1, of which any part can be had alone. It is made of integer arithmetic
    that is written here, so that it is the same with every version of everything.

    A number is a pair (left, right) below (rows, columns). Each round of a Feistel network adds to one half,
    modulo its bound, a hash of the other; so every round can be undone, and no two numbers become one. The
    grid has a few places more than `count`: what falls onto them is sent through again.
    """

    def __init__(self, count: int, seed: int, epoch: int) -> None:
        self._count = count
        self._rows = math.isqrt(count - 1) + 1
        self._columns = -(-count // self._rows)
        # Of few records as many orders as can be told apart occur; what more rounds cost is little there.
        names = [f"{seed} {epoch} {number}".encode() for number in range(6 if count > 1000 else 24)]
        digests = b"".join(hashlib.blake2b(name, digest_size=8).digest() for name in names)
        self._keys = np.frombuffer(digests, "<u8")

    def __call__(self, first: int, last: int) -> npt.NDArray[np.int64]:
        """What stands at the places first … last - 1."""
        found = self._once(np.arange(first, last, dtype=np.uint64))
        while (outside := np.flatnonzero(found >= self._count)).size:
            found[outside] = self._once(found[outside])
        return found.view(np.int64)

    def _once(self, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        bounds = np.array([self._rows, self._columns], np.uint64)
        halves = np.divmod(numbers, bounds[1])
        for number, key in enumerate(self._keys):
            half, other, bound = halves[number & 1], halves[~number & 1], bounds[number & 1]
            mixed = (other ^ key) * _MULTIPLIERS[0]
            mixed ^= mixed >> _HALF
            mixed *= _MULTIPLIERS[1]
            half += (mixed >> _HALF) * bound >> _HALF
            half -= bound * (half >= bound)
        whole: npt.NDArray[np.uint64] = halves[0] * bounds[1] + halves[1]
        return whole


class DataLoader:
    """Batches of the records in a file, which is mapped and not read: `for batch in loader` is what is left
    of one epoch. A batch is [batch, *shape], the last of an epoch shorter, and is read-only unless shuffled.

        loader = assay.DataLoader("train.npy", batch=256, seed=1)
        while loader.position["epoch"] < 3:
            for batch in loader: ...

    `path` is an .npy file, whose first dimension counts the records; an .npz or .safetensors file, in which
    `name` is such an array (in an .npz file not compressed, and its checksum isn't looked at; bfloat16 is
    uint16); or any other file, which is all records of `shape` elements of `dtype`.

    In file order nothing is copied. With a `seed` every epoch has an order of its own, and a batch is one
    copy; with `reuse` always into the same memory, where it lasts until the next. `rank` of `world` processes
    gets its part of an epoch: all parts together are each record once, and differ in length by one at most.

    A file that another program cuts short is noticed before each batch; a batch in file order that was
    handed out before then must not be read any more.

    Raises RequestError for a field that is out of range, ModelNotFoundError where no file is there,
    FormatError for a file that isn't sound.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        batch: int,
        name: str | None = None,
        dtype: npt.DTypeLike | None = None,
        shape: tuple[int, ...] = (),
        seed: int | None = None,
        reuse: bool = False,
        rank: int = 0,
        world: int = 1,
        position: Mapping[str, object] | None = None,
    ) -> None:
        most = (1 << 63) - 1
        for dim in shape:
            _check("shape", dim, 1, most)
        self._path = str(path)
        self._file, found = map_records(Path(path), name, dtype, shape)
        self.dtype, (self.records, *record) = found.dtype, found.shape
        self.shape = tuple(record)
        data = np.frombuffer(self._file, np.uint8, found.nbytes, found.offset)
        self._rows = data.reshape(self.records, -1)
        _check("batch", batch, 1, most)
        _check("world", world, 1, self.records)
        _check("rank", rank, 0, world - 1)
        if seed is not None:
            _check("seed", seed, 0, most)
        elif reuse:
            hint = "batches in file order are not copied"
            raise RequestError("nothing to reuse", place="reuse", want="a seed with it", hint=hint)
        self._batch, self._seed, self._rank, self._world = batch, seed, rank, world
        self._first, end = rank * self.records // world, (rank + 1) * self.records // world
        self._size = end - self._first
        self._memory = self._room(min(batch, self._size)) if reuse else None
        self._epoch = self._done = 0
        if position is not None:
            self._resume(position)

    @property
    def position(self) -> dict[str, int | None]:
        """Where the next batch begins, as JSON can hold it: `position=` of a later loader goes on there, with
        any size of batch.
        """
        order = {"seed": self._seed, "records": self.records, "rank": self._rank, "world": self._world}
        return {"epoch": self._epoch, "record": self._done, **order}

    def __len__(self) -> int:
        """Batches of a whole epoch."""
        return -(-self._size // self._batch)

    def __iter__(self) -> Iterator[npt.NDArray[np.generic]]:
        epoch = self._epoch
        order = None if self._seed is None else Permutation(self.records, self._seed, epoch)
        ahead, known = np.empty(0, np.int64), 0  # the records of the places from `known` on
        while self._epoch == epoch:
            self._check_size()
            start, stop = self._done, min(self._done + self._batch, self._size)
            self._epoch, self._done = (epoch, stop) if stop < self._size else (epoch + 1, 0)
            if order is None:
                rows = self._rows[self._first + start : self._first + stop]
            else:
                if not known <= start <= stop <= known + len(ahead):
                    last = min(start + max(_AHEAD, self._batch), self._size)
                    ahead, known = order(self._first + start, self._first + last), start
                rows = self._room(stop - start) if self._memory is None else self._memory[: stop - start]
                # Any mode but the default writes where it is told to; no index is out of range.
                np.take(self._rows, ahead[start - known : stop - known], 0, rows, "clip")
            yield rows.view(self.dtype).reshape(len(rows), *self.shape)

    def _check_size(self) -> None:
        """The system ends a process that reads where a mapped file is no more."""
        size, wanted = self._file.size(), len(self._file)
        if size < wanted:
            rule = "the file was cut short while it was read"
            raise FormatError(rule, place=self._path, want=f"{wanted} bytes", got=f"{size} bytes")

    def _room(self, count: int) -> npt.NDArray[np.uint8]:
        return np.empty((count, self._rows.shape[1]), np.uint8)

    def _resume(self, position: Mapping[str, object]) -> None:
        now = self.position
        if not isinstance(position, Mapping) or set(position) != set(now):
            want = f"a mapping with {', '.join(now)}"
            raise RequestError("not a position", place="position", want=want, got=shown(position))
        for key in ("seed", "records", "rank", "world"):
            if position[key] != now[key]:
                place, got = f"position › {key}", shown(position[key])
                raise RequestError("a position in another order", place=place, want=str(now[key]), got=got)
        self._epoch = _check("position › epoch", position["epoch"], 0, (1 << 63) - 1)
        self._done = _check("position › record", position["record"], 0, self._size - 1)


def _check(name: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        want = f"an integer from {low} to {high}"
        raise RequestError("a field is out of range", place=name, want=want, got=shown(value))
    return value

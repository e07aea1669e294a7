"""Tensors of ONNX files: from a protobuf's fields, or from a file beside it."""

from __future__ import annotations

from math import prod
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from assay.errors import FormatError
from assay.formats.files import opened, read_at
from assay.formats.tensors import quoted
from assay.tensor.dtype import BY_NAME, STRING, DType
from assay.tensor.narrow import inside

if TYPE_CHECKING:
    import onnx

Array = NDArray[np.generic]
LARGEST = 1 << 28
"""Bytes of the largest tensor that is made of fewer bytes of a file: a sparse one."""
RANK = 64
"""Most dimensions of an array in NumPy."""
_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


def dtype_of(code: int, place: str) -> DType:
    """The element type with this number in ONNX. Raises FormatError."""
    import onnx

    known = onnx.TensorProto.DataType.items()
    name = next((name for name, number in known if number == code), "")
    dtype = BY_NAME.get(_NAMES.get(name, name.lower()))
    if dtype is None:
        raise FormatError(
            "unknown element type", place=place, want="a type of ONNX", got=f"{code} {name}".strip()
        )
    return dtype


def read_tensor(proto: onnx.TensorProto, folder: Path) -> tuple[DType, Array]:
    """The element type and the elements, as kernels know them; strings as an array of Python's.

    `folder` is where files beside the model may lie. Raises FormatError for what isn't whole.
    """
    from onnx import TensorProto, numpy_helper

    place = f"tensor {quoted(proto.name)}"
    dtype = dtype_of(proto.data_type, place)
    sizes = _sizes(proto.dims, place)
    if proto.HasField("segment"):
        raise FormatError(
            "a tensor in segments", place=place, want="a whole tensor", got="one of its segments"
        )
    if proto.data_location == TensorProto.EXTERNAL:
        copy = TensorProto(data_type=proto.data_type, dims=proto.dims)
        nbytes = _packed(dtype, prod(sizes))
        raw = _beside(proto, folder, nbytes, place)
        if dtype.kind not in ("narrow", "string"):
            return dtype, raw.view(dtype.numpy).reshape(sizes)
        copy.raw_data = raw.tobytes()
        proto = copy
    if dtype is STRING:
        texts = np.empty(len(proto.string_data), object)
        texts[:] = [each.decode("utf-8", "surrogateescape") for each in proto.string_data]
        return dtype, _whole(texts, sizes, place)
    raw_bytes = len(proto.raw_data)
    if proto.HasField("raw_data") and raw_bytes != _packed(dtype, prod(sizes)):
        want, got = f"{_packed(dtype, prod(sizes))} bytes for {dtype}{list(sizes)}", f"{raw_bytes} bytes"
        raise FormatError("a tensor's bytes don't fill its shape", place=place, want=want, got=got)
    try:
        array = numpy_helper.to_array(proto)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        rule, want = "a tensor's elements don't fill its shape", f"{prod(sizes)} of {dtype}"
        raise FormatError(rule, place=place, want=want, got=str(error)[:200]) from error
    return dtype, _whole(inside(np.ascontiguousarray(array).reshape(-1), dtype), sizes, place)


def read_sparse(proto: onnx.SparseTensorProto, folder: Path) -> tuple[DType, Array]:
    """A sparse tensor with its zeros. Raises FormatError."""
    place = f"sparse tensor {quoted(proto.values.name)}"
    dtype, values = read_tensor(proto.values, folder)
    _, indices = read_tensor(proto.indices, folder)
    sizes = _sizes(proto.dims, place)
    if dtype is STRING or prod(sizes) * dtype.size > LARGEST:
        raise FormatError(
            "a sparse tensor too large", place=place, want=f"at most {LARGEST} bytes", got=str(sizes)
        )
    if values.ndim != 1 or indices.shape not in ((len(values),), (len(values), len(sizes))):
        want, got = "one index, or one for each dimension, for each value", f"{indices.shape}"
        raise FormatError("indices don't fit the values", place=place, want=want, got=got)
    flat = indices.astype(np.int64)
    if indices.ndim == 2:
        if ((flat < 0) | (flat >= sizes)).any():
            raise FormatError(
                "an index out of range", place=place, want=f"below {sizes}", got="one that isn't"
            )
        flat = np.ravel_multi_index(tuple(flat.T), sizes) if sizes else np.zeros(len(values), np.int64)
    if ((flat < 0) | (flat >= prod(sizes))).any():
        raise FormatError(
            "an index out of range", place=place, want=f"below {prod(sizes)}", got="one that isn't"
        )
    dense = np.zeros(prod(sizes), values.dtype)
    dense[flat] = values
    return dtype, dense.reshape(sizes)


def _sizes(dims: object, place: str) -> tuple[int, ...]:
    sizes = tuple(int(dim) for dim in dims)  # type: ignore[attr-defined]
    if len(sizes) > RANK or any(size < 0 for size in sizes) or prod(size or 1 for size in sizes) > 1 << 60:
        raise FormatError(
            "an impossible shape",
            place=place,
            want=f"up to {RANK} sizes of 0 or more",
            got=str(list(sizes))[:200],
        )
    return sizes


def _packed(dtype: DType, count: int) -> int:
    """Bytes of so many elements in a file: narrow ones share bytes."""
    bits = {"int4": 4, "uint4": 4, "float4e2m1": 4, "int2": 2, "uint2": 2}.get(dtype.name)
    return -(-count * bits // 8) if bits else count * dtype.size


def _whole(array: Array, sizes: tuple[int, ...], place: str) -> Array:
    if array.size != prod(sizes):
        want, got = f"{prod(sizes)} elements for {list(sizes)}", f"{array.size}"
        raise FormatError("a tensor's elements don't fill its shape", place=place, want=want, got=got)
    return array.reshape(sizes)


def _beside(proto: onnx.TensorProto, folder: Path, nbytes: int, place: str) -> NDArray[np.uint8]:
    """The bytes of a tensor that lies in another file, which must be in the model's folder."""
    said = {entry.key: entry.value for entry in proto.external_data}
    location = said.get("location", "")
    parts = PurePosixPath(location).parts
    if not location or "\0" in location or "\\" in location or location.startswith("/") or ".." in parts:
        want, got = "a path inside the model's folder", quoted(location)
        raise FormatError("external data outside the model's folder", place=place, want=want, got=got)
    target = folder.joinpath(*parts)
    try:
        real, home = target.resolve(strict=True), folder.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        hint = "the file of weights must lie beside the model"
        raise FormatError(
            "external data is missing", place=place, want=str(target), got=str(error)[:200], hint=hint
        ) from error
    if not real.is_relative_to(home):
        rule, want = "external data outside the model's folder", "a file inside it, not a link out of it"
        raise FormatError(rule, place=place, want=want, got=str(real)[:200])
    offset, length = (
        _number(said.get(key, default), key, place)
        for key, default in (("offset", "0"), ("length", str(nbytes)))
    )
    if length != nbytes:
        want, got = f"{nbytes} bytes for its shape", f"{length} bytes"
        raise FormatError("external data doesn't fill the shape", place=place, want=want, got=got)
    with opened(real, "a file of weights") as (fd, size):
        if offset + length > size:
            want, got = f"{length} bytes at byte {offset}", f"a file of {size}"
            raise FormatError("external data ends early", place=place, want=want, got=got)
        return read_at(fd, offset, length)


def _number(text: str, key: str, place: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise FormatError(
            f"external data: {key} can't be read", place=place, want="an integer", got=quoted(text)
        )
    return int(text)

"""Damaged and hostile ONNX models, made from sound ones; each is refused with a typed error or is sound.

    cd tests && python -W ignore -m formats.fuzz_onnx --cases 20000 [--seed 0]

prints the longest time and the highest memory over the baseline, and each case that broke a limit. What keeps
every contract is also run, its time not counted: it may be refused then, and must not crash. The suite reads
a sample.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError, EncodeError, Message
from onnx import TensorProto
from onnx.helper import make_graph, make_node, make_tensor

from assay.errors import AssayError, FormatError
from assay.formats.onnx_file import load_onnx
from assay.runtime.model import Model, analyse
from formats.campaign import Campaign
from formats.hostile_onnx import call, function, ints, model_of, nested, value, weight

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
NAME = "model.onnx"
OUTSIDE = "outside.bin"


def _loop() -> onnx.NodeProto:
    body = make_graph(
        [make_node("Identity", ["c"], ["c2"]), make_node("Add", ["v", "x"], ["w"])],
        "b",
        [value("i", [], INT64), value("c", [], BOOL), value("v")],
        [value("c2", [], BOOL), value("w")],
    )
    return make_node("Loop", ["n", "t", "x"], ["y"], body=body)


def _sparse() -> onnx.ModelProto:
    made = model_of([make_node("Add", ["x", "w"], ["y"])])
    places = make_tensor("p", INT64, [2], [0, 3])
    made.graph.sparse_initializer.add(values=weight(dims=[2], float_data=[1, 2]), indices=places, dims=[4])
    return made


def _outside() -> onnx.ModelProto:
    proto = weight(dims=[4], data_location=TensorProto.EXTERNAL)
    for key, text in {"location": "w.bin", "offset": "0", "length": "16"}.items():
        proto.external_data.add(key=key, value=text)
    return model_of([make_node("Mul", ["x", "w"], ["y"])], [proto])


@cache
def seeds() -> tuple[bytes, ...]:
    """Sound models: layers, shapes that values say, branches, a loop, functions, sparse and external data."""
    relu = make_node("Relu", ["x"], ["y"])
    flat = [
        make_node("Reshape", ["x", "s"], ["a"], name="/fold/Reshape"),
        make_node("Softmax", ["a"], ["b"], axis=1),
        make_node("Concat", ["b", "a"], ["d"], axis=0),
        make_node("Slice", ["d", "z", "e"], ["f"]),
        make_node("Transpose", ["f"], ["g"], perm=[1, 0]),
        make_node("Gather", ["g", "z"], ["y"], axis=1),
    ]
    layers = [
        make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        make_node("Relu", ["a"], ["b"]),
        make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2]),
        make_node("Flatten", ["c"], ["d"]),
        make_node("Gemm", ["d", "v"], ["y"], transB=1, alpha=0.5),
    ]
    kernel = weight(dims=[2, 3, 3, 3], raw_data=np.ones(54, np.float32).tobytes())
    matrix = make_tensor("v", TensorProto.FLOAT, [5, 18], [0.5] * 90)
    models = [
        model_of(flat, [ints("s", [2, -1]), ints("z", [0]), ints("e", [3])]),
        model_of(layers, [kernel, matrix], inputs=[value("x", ["N", 3, 7, 7])]),
        model_of([nested(2)], inputs=[value("x"), value("c", [], BOOL)]),
        model_of([_loop()], [make_tensor("n", INT64, [], [3]), make_tensor("t", BOOL, [], [1])]),
        model_of([call("a")], functions=[function("a", call("b")), function("b", relu)]),
        _sparse(),
        _outside(),
    ]  # fmt: skip
    return tuple(each.SerializeToString() for each in models)


INTEGERS = (
    0, 1, -1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 16, 17, 100, 1 << 20, (1 << 63) - 1, -(1 << 63),
    *(sign * (1 << bits) + less for bits in (31, 32, 40, 62) for sign in (1, -1) for less in (-1, 0)),
)  # fmt: skip
TEXTS = (
    "", "x", "y", "a", "w", "c", "s", "z", "Add", "Relu", "If", "Loop", "Concat", "Conv", "then_branch",
    "body", "axis", "to", "pads", "f", "ai.onnx", "ai.onnx.ml", "é🙂", "\0", "\n  12  Relu(x)\x1b[2J",
    "n" * 5000, "../" + OUTSIDE, "/etc/hostname", "w.bin", NAME, "-1", "1e9", str(1 << 64),
)  # fmt: skip


def _messages(message: Message) -> Iterator[Message]:
    """A message and all those inside it."""
    yield message
    for field, held in message.ListFields():
        if field.message_type:
            for each in held if hasattr(held, "__len__") and not isinstance(held, Message) else [held]:
                yield from _messages(each)


def _scalar(kind: str, old: object, rng: random.Random) -> object:
    """Another value for a field."""
    if kind == "string":
        return rng.choice(TEXTS)
    if kind == "bytes":
        data = bytearray(old if isinstance(old, bytes) else b"")
        if data and rng.randrange(3):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(data)
        return bytes(data[: rng.randrange(len(data) + 1)]) + rng.choice([b"", b"\xff\xfe", b"\0" * 16, b"x"])
    if kind == "float":
        return rng.choice([0.0, -1.0, 0.5, float("nan"), float("inf"), 1e30, 1e-40])
    near = old + rng.choice([-1, 1]) if isinstance(old, int) else 1
    return rng.choice([near, rng.choice(INTEGERS)])


KINDS = {9: "string", 12: "bytes", 2: "float", 1: "float"}
"""By protobuf's number of a type; others are integers."""


def _changed(message: Message, rng: random.Random) -> None:
    """One field gets another value, one more, one less, another order, or none."""
    field = rng.choice(message.DESCRIPTOR.fields)
    if rng.randrange(3) and message.ListFields():
        field = rng.choice(message.ListFields())[0]
    repeated = hasattr(getattr(message, field.name), "extend")
    kind, held = KINDS.get(field.type, "integer"), getattr(message, field.name)
    if rng.randrange(8) == 0:
        message.ClearField(field.name)
    elif repeated and field.message_type:
        if held and rng.randrange(2):
            held.add().CopyFrom(rng.choice(held))
        elif held:
            del held[rng.randrange(len(held))]
        else:
            held.add()
    elif repeated:
        items = list(held) or [b"" if kind == "bytes" else "" if kind == "string" else 0]
        at = rng.randrange(len(items))
        items[at] = _scalar(kind, items[at], rng)
        del held[:]
        held.extend(items * rng.choice([1, 1, 1, 2]))
    elif field.message_type:
        others = [each for each in _messages(message) if type(each) is type(held)]
        held.CopyFrom(rng.choice(others) if others else type(held)())
    else:
        setattr(message, field.name, _scalar(kind, held, rng))


def _fields(data: bytes, rng: random.Random) -> bytes:
    model = onnx.ModelProto()
    model.ParseFromString(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        try:
            _changed(rng.choice(list(_messages(model))), rng)
        except (ValueError, TypeError):
            continue  # a value that the field can't take
    return model.SerializeToString()


def _bytes(data: bytes, rng: random.Random) -> bytes:
    """Bits flip, bytes are written over, inserted, said twice or cut."""
    made, at = bytearray(data), rng.randrange(len(data) + 1)
    match rng.randrange(5):
        case 0:
            for _ in range(rng.randint(1, 8)):
                made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
        case 1:
            made[at : at + rng.randint(1, 16)] = rng.randbytes(rng.randint(1, 16))
        case 2:
            made[at:at] = rng.choice([b"\xff" * 9 + b"\x01", b"\x0b" * 5000, b"\0", made[at : at + 60]])
        case 3:
            del made[at:]
        case _:
            del made[at : at + rng.randint(1, 20)]
    return bytes(made)


def made(rng: random.Random, folder: Path) -> Path:
    """A damaged model, with the file that one of them reads beside it."""
    (folder / OUTSIDE).write_bytes(bytes(16))
    home = folder / "model"
    home.mkdir()
    (home / "w.bin").write_bytes(np.ones(4, np.float32).tobytes())
    data = rng.choice(seeds())
    try:
        data = rng.choice([_fields, _fields, _bytes])(data, rng)
    except (DecodeError, EncodeError):
        data = _bytes(data, rng)
    (home / NAME).write_bytes(data)
    return home / NAME


def attempt(path: Path) -> str:
    """Read the file and hold it against its contracts: the error's rule, or "sound"."""
    try:
        found = analyse(load_onnx(path))
    except FormatError as error:
        text = str(error)
        assert str(path) in error.place and error.rule and (error.want or error.got) and "\x1b" not in text, (
            text
        )
        return error.rule
    for each in found.errors:
        text = str(each)
        assert each.rule and (each.want or each.got) and "\x1b" not in text and text.count("\n") < 12, text
    return f"refused: {found.errors[0].rule}" if found.errors else "sound"


def run(path: Path) -> None:
    """Run a sound model once."""
    with Model.load(path, 1) as model:
        named = {spec.name for spec in model.inputs if spec.dtype == "bool" and spec.shape == ()}
        model.optimize_for_batch(1, dict.fromkeys(named, np.array(True)))


def check(path: Path, result: str) -> None:
    """Run what is sound: whatever it says then is typed."""
    if result == "sound":
        with suppress(AssayError):
            run(path)


def heavy(folder: Path) -> Iterator[tuple[str, Path]]:
    """Those are hostile_onnx.py's."""
    return iter(())


CAMPAIGN = Campaign("formats.fuzz_onnx", made, attempt, heavy, check)

if __name__ == "__main__":
    sys.exit(CAMPAIGN.main(__doc__))

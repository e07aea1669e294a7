"""Hostile ONNX models, each small in itself: by name, what makes the file, and inputs to run it on.

    cd tests && python -m formats.hostile_onnx [NAME …]

attempts each in this process and prints a line of JSON: name, what came of it, the processor's seconds, and
megabytes over what was resident before. The suite runs it in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.helper import make_graph, make_node, make_tensor

from assay.errors import AssayError
from assay.formats.onnx_file import load_onnx
from assay.runtime.model import Model
from formats import hostile_numbers  # noqa: F401 - it has cases, too
from formats.campaign import Meter
from formats.hostile_cases import BIG, CASES, FLOAT, INT64, Inputs, X, case, ints, model_of, value

# Bytes and fields

PLAIN = model_of([make_node("Relu", ["x"], ["y"])])
ADD = [make_node("Add", ["x", "w"], ["y"])]


def weight(**fields: Any) -> TensorProto:
    """A weight with only these fields."""
    return TensorProto(**{"name": "w", "data_type": FLOAT, **fields})


case("empty", b"")
case("not a protobuf", b"\xff" * 64)
case("a text", b"GGUF is another kind of file\n" * 10)
case("cut short", PLAIN.SerializeToString()[:-5])
case("a length of 2 GB", PLAIN.SerializeToString() + b"\x3a\xff\xff\xff\xff\x07")
case("a length of 2**63", PLAIN.SerializeToString() + b"\x3a" + b"\xff" * 9 + b"\x01")
case("groups in groups", b"\x0b" * 100_000)
case("graphs in graphs, by bytes", b"\x3a\x7f" * 5000)
case("no opset", make_graph([], "g", [], []).SerializeToString())
for version in (0, -1, 1 << 31, (1 << 63) - 1, -(1 << 63)):
    case(f"opset {version}", model_of([make_node("Relu", ["x"], ["y"])], opset=version))
for dims in ([1 << 40], [1 << 62, 1 << 62], [-1], [1 << 63 - 1] * 9, [3], [0, 1 << 62], [1] * 3000):
    text = str(dims) if len(dims) < 10 else f"{len(dims)} ones"
    case(f"raw dims {text}", model_of(ADD, [weight(dims=dims, raw_data=b"\0" * 16)]))
    case(f"float dims {text}", model_of(ADD, [weight(dims=dims, float_data=[1, 2, 3, 4])]))
    sparse = model_of(ADD)
    sparse.graph.sparse_initializer.add(
        values=weight(dims=[1], float_data=[1]), indices=make_tensor("i", INT64, [1], [0]), dims=dims
    )
    case(f"sparse dims {text}", sparse)
case("an element type of 2**31 - 1", model_of(ADD, [weight(dims=[4], data_type=(1 << 31) - 1)]))
case(
    "an input of dims 2**62",
    model_of(ADD, [weight(dims=[1], float_data=[1])], inputs=[value("x", [1 << 62, 1 << 62])]),
)
dense = model_of(ADD)
dense.graph.sparse_initializer.add(
    values=weight(dims=[1], float_data=[1]), indices=make_tensor("i", INT64, [1], [0]), dims=[1 << 28]
)
case("a sparse tensor of 1 GB", dense)


# Data in other files


def beside(name: str, location: str, length: int | None = 16, offset: str = "0", **make: Any) -> None:
    """A weight in another file; `make` are files by name: bytes, a number of zeros, or a link's target."""
    proto = weight(dims=[4], data_location=TensorProto.EXTERNAL)
    entries = {"location": location, "offset": offset} | ({} if length is None else {"length": str(length)})
    for key, text in entries.items():
        proto.external_data.add(key=key, value=text)
    data = model_of(ADD, [proto]).SerializeToString()

    def write(path: Path) -> None:
        path.write_bytes(data)
        for file, what in make.items():
            target = path.parent / file
            if what == "fifo":
                os.mkfifo(target)
            elif isinstance(what, str):
                target.symlink_to(what)
            else:
                target.write_bytes(what)

    CASES[f"external: {name}"] = write, X


beside("absolute", "/etc/passwd")
beside("above", "../../../../etc/passwd")
beside("above, hidden", "a/../../w")
beside("a link out", "w", w="/etc/passwd")
beside("a device", "w", w="/dev/zero")
beside("a link in a circle", "w", w="w")
beside("a link to a folder out", "w/passwd", w="/etc")
beside("a pipe", "w", w="fifo")
beside("a folder", ".")
beside("nothing", "")
beside("missing", "w")
beside("a null byte", "a\0b")
beside("backslashes", "..\\w")
beside("a long name", "a" * 100_000)
beside("short", "w", w=b"\0" * 15)
beside("2 GB of 16 bytes", "w", 1 << 31, w=b"\0" * 16)
beside("an offset behind the end", "w", 16, "1000", w=b"\0" * 16)
beside("an offset of 2**64", "w", 16, str(1 << 64), w=b"\0" * 16)
beside("a negative offset", "w", 16, "-16", w=b"\0" * 16)


# Graphs that lead to themselves, and that grow


def function(name: str, *nodes: onnx.NodeProto, attributes: Sequence[str] = ()) -> onnx.FunctionProto:
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, ["x"], ["y"], nodes, opsets, attributes)


def call(name: str, x: str = "x", y: str = "y") -> onnx.NodeProto:
    return make_node(name, [x], [y], domain="f")


def then(name: str, inner: onnx.NodeProto) -> onnx.NodeProto:
    """A node that runs another in its branches."""
    body, other = (
        make_graph([node], "b", [], [value("y", None)]) for node in (inner, make_node("Neg", ["x"], ["y"]))
    )
    return make_node("If", ["c"], [name], then_branch=body, else_branch=other)


def nested(depth: int) -> onnx.NodeProto:
    node = make_node("Relu", ["x"], ["y"])
    for _ in range(depth):
        node = then("y", node)
    return node


case("a function that calls itself", model_of([call("a")], functions=[function("a", call("a"))]))
case(
    "functions that call each other",
    model_of([call("a")], functions=[function("a", call("b")), function("b", call("a"))]),
)
case(
    "a function that calls itself twice",
    model_of([call("a")], functions=[function("a", call("a", y="z"), call("a", "z"))]),
)
itself = [
    make_node("Constant", [], ["c"], value=make_tensor("", TensorProto.BOOL, [], [1])),
    then("y", call("a")),
]
case("a function that calls itself in a branch", model_of([call("a")], functions=[function("a", *itself)]))
for width in (2, 8):
    laughs = [
        function(
            f"a{level}",
            *[
                call(f"a{level + 1}", "x" if i == 0 else f"t{i}", "y" if i == width - 1 else f"t{i + 1}")
                for i in range(width)
            ],
        )
        for level in range(30)
    ]
    laughs.append(function("a30", make_node("Relu", ["x"], ["y"])))
    case(f"a billion laughs of {width}", model_of([call("a0")], functions=laughs))
branchy = value("c", [], TensorProto.BOOL)
for depth in (3, 20):
    case(
        f"branches {depth} deep",
        model_of([nested(depth)], inputs=[value("x"), branchy]),
        {**X, "c": np.array(True)},
    )


def deep_bytes(depth: int) -> bytes:
    """A graph in a node in a graph …, written without making it: protobuf's own limit is 100 messages."""

    def field(number: int, data: bytes) -> bytes:
        size, length = len(data), bytearray()
        while size >= 128:
            length.append(size & 127 | 128)
            size >>= 7
        return bytes([number << 3 | 2, *length, size]) + data

    graph = b""
    for _ in range(depth):
        attribute = field(1, b"then_branch") + field(6, graph) + b"\xa0\x01\x05"
        graph = field(1, field(4, b"If") + field(5, attribute))
    return field(7, graph) + field(8, b"\x10\x15")


for depth in (28, 45, 2000):
    case(f"branches {depth} deep, without an end", deep_bytes(depth))
case(
    "a cycle",
    model_of(
        [
            make_node("Add", ["x", "b"], ["a"]),
            make_node("Relu", ["a"], ["b"]),
            make_node("Relu", ["b"], ["y"]),
        ]
    ),
)
case("a node of its own output", model_of([make_node("Add", ["x", "y"], ["y"])]))

kind = helper.make_tensor_type_proto(FLOAT, [1])
for _ in range(42):
    kind = helper.make_sequence_type_proto(kind)
case(
    "types in types", model_of([make_node("Relu", ["x"], ["y"])], inputs=[helper.make_value_info("x", kind)])
)


# Names

case("control characters", model_of([make_node("Relu\x1b[2J\n", ["x"], ["y\x00\x07"], name="\x1b]0;t\x07")]))
case("a name of 10 MB", model_of([make_node("Relu" + "x" * 10_000_000, ["x"], ["y"])]))
case(
    "names of 10 MB, sound",
    model_of(
        [
            make_node("Relu", ["x"], ["z" * 10_000_000]),
            make_node("Reluu", ["z" * 10_000_000], ["y"], name="n" * 10_000_000),
        ]
    ),
)
case(
    "a symbol of 1 MB",
    model_of(
        ADD, [weight(dims=[1], float_data=[1])], inputs=[value("x", ["(" * 500_000 + "a" + ")" * 500_000])]
    ),
)
case(
    "a symbol that grows",
    model_of(
        ADD, [weight(dims=[1], float_data=[1])], inputs=[value("x", ["*".join(["(a+b+c+d+e+f+g+h)"] * 40)])]
    ),
)
case(
    "a symbol of powers",
    model_of(ADD, [weight(dims=[1], float_data=[1])], inputs=[value("x", ["9**9**9**9"])]),
)

case("a name that isn't UTF-8", PLAIN.SerializeToString().replace(b"Relu", b"R\xff\xfeu"))
nameless = model_of([make_node("Relu", ["x"], ["y"])])
nameless.graph.output[0].name = ""
case("an output without a name", nameless)
named = function("a", make_node("Relu", ["x"], ["y"]))
named.output[0] = ""
case("a function's output without a name", model_of([call("a")], functions=[named]))
refers = make_node("Elu", ["x"], ["y"])
refers.attribute.add(name="alpha", ref_attr_name="beta", type=onnx.AttributeProto.FLOAT)
case("a reference to no function's attribute", model_of([refers]))


# Sizes that values say

case("Expand", model_of([make_node("Expand", ["x", "s"], ["y"])], [ints("s", [BIG, 4])]))
case(
    "Expand at run",
    model_of([make_node("Expand", ["x", "s"], ["y"])], inputs=[value("x"), value("s", ["n"], INT64)]),
    {**X, "s": np.array([BIG, 4])},
)
case(
    "Expand to 2**62 elements", model_of([make_node("Expand", ["x", "s"], ["y"])], [ints("s", [1 << 60, 4])])
)
case(
    "Expand past int64", model_of([make_node("Expand", ["x", "s"], ["y"])], [ints("s", [1 << 62] * 5 + [4])])
)
case("Tile", model_of([make_node("Tile", ["x", "s"], ["y"])], [ints("s", [BIG])]))
case("Tile by 2**63 - 1", model_of([make_node("Tile", ["x", "s"], ["y"])], [ints("s", [(1 << 63) - 1])]))
case("ConstantOfShape", model_of([make_node("ConstantOfShape", ["s"], ["y"])], [ints("s", [BIG])]))
case(
    "ConstantOfShape at run",
    model_of([make_node("ConstantOfShape", ["x"], ["y"])], inputs=[value("x", ["n"], INT64)]),
    {"x": np.array([1 << 32, 1 << 20])},
)
case(
    "ConstantOfShape of 4 TB, unread",
    model_of(
        [make_node("ConstantOfShape", ["s"], ["z"]), make_node("Shape", ["z"], ["y"])],
        [ints("s", [BIG])],
        kind=INT64,
    ),
)
scalars = [make_tensor(name, INT64, [], [number]) for name, number in (("a", 0), ("b", BIG), ("d", 1))]
case("Range", model_of([make_node("Range", ["a", "b", "d"], ["y"])], scalars, kind=INT64))
floats = [make_tensor(name, FLOAT, [], [number]) for name, number in (("a", 0), ("b", 1e30), ("d", 1e-30))]
case("Range of floats", model_of([make_node("Range", ["a", "b", "d"], ["y"])], floats))
still = [make_tensor(name, INT64, [], [number]) for name, number in (("a", 0), ("b", BIG), ("d", 0))]
case("Range by 0", model_of([make_node("Range", ["a", "b", "d"], ["y"])], still, kind=INT64))
case("Pad", model_of([make_node("Pad", ["x", "s"], ["y"])], [ints("s", [BIG, BIG])]))
case(
    "Pad at run",
    model_of([make_node("Pad", ["x", "s"], ["y"])], inputs=[value("x"), value("s", [2], INT64)]),
    {**X, "s": np.array([BIG, BIG])},
)
case("Resize", model_of([make_node("Resize", ["x", "", "", "s"], ["y"])], [ints("s", [BIG])]))
scale = make_tensor("s", FLOAT, [1], [1e30])
case("Resize by 1e30", model_of([make_node("Resize", ["x", "", "s"], ["y"])], [scale]))
case(
    "OneHot",
    model_of(
        [make_node("Cast", ["x"], ["i"], to=INT64), make_node("OneHot", ["i", "d", "v"], ["y"])],
        [ints("d", [BIG]), make_tensor("v", FLOAT, [2], [0, 1])],
    ),
)
case(
    "EyeLike",
    model_of(
        [make_node("ConstantOfShape", ["s"], ["z"]), make_node("EyeLike", ["z"], ["y"])],
        [ints("s", [1 << 20, 1 << 20])],
    ),
)
case("RandomNormal", model_of([make_node("RandomNormal", [], ["y"], shape=[BIG])]))
case(
    "Upsample chain",
    model_of(
        [
            make_node("Concat", [f"v{i}" if i else "x"] * 2, [f"v{i + 1}" if i < 39 else "y"], axis=0)
            for i in range(40)
        ]
    ),
)
case(
    "products",
    model_of(
        [
            make_node("Reshape", ["x", "c"], ["v"]),
            make_node("Mul", ["v", "x"], ["v0"]),
            make_node("Reshape", ["v0", "o"], ["w"]),
            make_node("Reshape", ["v0", "p"], ["u"]),
            make_node("Mul", ["w", "u"], ["y"]),
        ],
        [ints("c", [-1, 1]), ints("o", [-1, 1]), ints("p", [1, -1])],
    ),
    {"x": np.ones(4, np.float32)},
)
WIDE = {"x": np.ones(200_000, np.float32)}
case(
    "broadcast",
    model_of(
        [make_node("Reshape", ["x", "c"], ["v"]), make_node("Mul", ["v", "x"], ["y"])],
        [ints("c", [-1, 1])],
        inputs=[value("x", ["n"])],
    ),
    WIDE,
)
case(
    "MatMul",
    model_of(
        [
            make_node("Reshape", ["x", "c"], ["v"]),
            make_node("Reshape", ["x", "r"], ["w"]),
            make_node("MatMul", ["v", "w"], ["y"]),
        ],
        [ints("c", [-1, 1]), ints("r", [1, -1])],
        inputs=[value("x", ["n"])],
    ),
    WIDE,
)
case(
    "a convolution of 2**40 channels",
    model_of(
        [make_node("Conv", ["x", "w"], ["y"])],
        [weight(dims=[1 << 20, 1, 1 << 10, 1 << 10])],
        inputs=[value("x", [1, 1, 4, 4])],
    ),
)
case(
    "a pool padded by 2**40",
    model_of(
        [make_node("AveragePool", ["x"], ["y"], kernel_shape=[1 << 41], pads=[BIG, BIG])],
        inputs=[value("x", [1, 1, 4])],
    ),
    {"x": np.ones((1, 1, 4), np.float32)},
)
case(
    "NonZero, then Expand",
    model_of(
        [
            make_node("NonZero", ["x"], ["n"]),
            make_node("Shape", ["n"], ["s"]),
            make_node("Mul", ["s", "m"], ["t"]),
            make_node("Expand", ["k", "t"], ["y"]),
        ],
        [ints("m", [1 << 30, 1 << 30]), weight(name="k", dims=[1, 1], float_data=[1])],
    ),
)
case("an axis of 2**62", model_of([make_node("Unsqueeze", ["x", "a"], ["y"])], [ints("a", [1 << 62])]))
case("rank 2**20", model_of([make_node("Reshape", ["x", "a"], ["y"])], [ints("a", [1] * (1 << 20))]))
case("Split into 2**30", model_of([make_node("Split", ["x"], ["y"], num_outputs=1 << 30)]))


# Loops


def loop(trips: int, *nodes: onnx.NodeProto, scans: bool = False, carried: str = "w") -> onnx.ModelProto:
    """A loop whose body makes `w` of `v`; its condition stays true."""
    results = [value("c", [], TensorProto.BOOL), value(carried, None), *[value("s", None)] * scans]
    body = make_graph(
        [make_node("Identity", ["d"], ["c"]), *nodes],
        "body",
        [value("i", [], INT64), value("d", [], TensorProto.BOOL), value("v", None)],
        results,
    )
    names = ["u", "y"] if scans else ["y"]
    node = make_node("Loop", ["m", "t", "x"], names, body=body)
    weights = [make_tensor("m", INT64, [], [trips]), make_tensor("t", TensorProto.BOOL, [], [1])]
    return model_of([node], weights)


relu = make_node("Relu", ["v"], ["w"])
case("a loop of 2**63 - 1", loop((1 << 63) - 1, relu))
case("a loop of 2**40 that collects", loop(BIG, relu, make_node("Identity", ["w"], ["s"]), scans=True))


def spiral(depth: int, inner: onnx.NodeProto, trips: int = 2) -> onnx.ModelProto:
    """Loops in loops; the innermost makes `w` of `v`."""
    for level in range(depth):
        body = make_graph(
            [make_node("Identity", ["d"], ["c"]), inner],
            "body",
            [value("i", [], INT64), value("d", [], TensorProto.BOOL), value("v", None)],
            [value("c", [], TensorProto.BOOL), value("w", None)],
        )
        inner = make_node(
            "Loop",
            ["m", "t", "v" if level < depth - 1 else "x"],
            ["w" if level < depth - 1 else "y"],
            body=body,
        )
    return model_of(
        [inner], [make_tensor("m", INT64, [], [trips]), make_tensor("t", TensorProto.BOOL, [], [1])]
    )


longer = make_node("Concat", ["v", "v"], ["w"], axis=0)
case("loops 20 deep, whose types change", spiral(20, longer), {})
case("loops 20 deep of 2**60 turns", spiral(20, relu, 8))
case(
    "sizes squared again and again",
    model_of(
        [
            make_node("Shape", ["x"], ["s0"]),
            *[make_node("Mul", [f"s{i}"] * 2, [f"s{i + 1}"]) for i in range(40)],
            make_node("Expand", ["x", "s40"], ["y"]),
        ],
        inputs=[value("x", ["n"])],
    ),
)
case(
    "sums of sizes squared",
    model_of(
        [
            make_node("Shape", ["x"], ["s0"]),
            make_node("Add", ["s0", "one"], ["t0"]),
            *[make_node("Mul", [f"t{i}"] * 2, [f"t{i + 1}"]) for i in range(40)],
            make_node("Expand", ["x", "t40"], ["y"]),
        ],
        [ints("one", [1])],
        inputs=[value("x", ["n"])],
    ),
)
case(
    "pools without end",
    model_of(
        [
            make_node(
                "MaxPool",
                [f"v{i}" if i else "x"],
                [f"v{i + 1}" if i < 899 else "y"],
                kernel_shape=[3],
                strides=[2],
                pads=[1, 1],
            )
            for i in range(900)
        ],
        inputs=[value("x", [1, 1, "n"])],
    ),
    {},
)
case(
    "halves without end",
    model_of(
        [
            make_node("Shape", ["x"], ["s0"]),
            *[
                n
                for i in range(40)
                for n in (
                    make_node("Mul", [f"s{i}"] * 2, [f"q{i}"]),
                    make_node("Div", [f"q{i}", "three"], [f"s{i + 1}"]),
                )
            ],
            make_node("Expand", ["x", "s40"], ["y"]),
        ],
        [ints("three", [3])],
        inputs=[value("x", ["n"])],
    ),
)


def attempt(path: Path, inputs: Inputs) -> str:
    """What comes of the model: an error's type and rule, or "ran"."""
    try:
        with Model(load_onnx(path), 2) as model:
            model.run(dict(inputs))
    except AssayError as error:
        text = str(error)
        assert error.rule and max(map(len, text.splitlines())) < 2100, text[:300]
        assert text.replace("\n", "").isprintable(), text[:300]
        return f"{type(error).__name__}: {error.rule}"
    return "ran"


class Late(BaseException):
    """Raised by the clock."""


def _late(*_: object) -> None:
    raise Late


def main(names: Sequence[str]) -> None:
    signal.signal(signal.SIGALRM, _late)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, 1 << 33))
    for name in names or CASES:
        make, inputs = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "m.onnx"
            make(path)
            meter = Meter(lambda path, inputs=inputs: attempt(path, inputs))  # type: ignore[misc]
            signal.alarm(10)
            try:
                result, seconds, megabytes = meter.measure(path)
            except (Exception, Late) as error:
                result, seconds, megabytes = f"! {type(error).__name__}: {error}"[:300], 99.0, 0.0
            signal.alarm(0)
        print(json.dumps([name, result, seconds, megabytes]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

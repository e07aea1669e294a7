"""Numbers of attributes and of inputs that ask for work without end, or are none."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto
from onnx.helper import make_node, make_tensor

from formats.hostile_cases import BIG, FLOAT, INT64, case, ints, model_of, value

STRINGS = {"x": np.array(["a" * 60], object)}
case(
    "LRN over 2**62 channels",
    model_of([make_node("LRN", ["x"], ["y"], size=1 << 62)], inputs=[value("x", [1, 4, 3])]),
    {"x": np.ones((1, 4, 3), np.float32)},
)
case(
    "n-grams with gaps of 2**40",
    model_of(
        [
            make_node(
                "TfIdfVectorizer",
                ["x"],
                ["y"],
                min_gram_length=1,
                max_gram_length=2,
                max_skip_count=BIG,
                mode="TF",
                ngram_counts=[0, 1],
                ngram_indexes=[0],
                pool_int64s=[1],
            )
        ],
        inputs=[value("x", [3], INT64)],
    ),
    {"x": np.ones(3, np.int64)},
)
case(
    "an expression that backtracks",
    model_of(
        [
            make_node("RegexFullMatch", ["x"], ["b"], pattern="(a+)+b"),
            make_node("Cast", ["b"], ["y"], to=FLOAT),
        ],
        inputs=[value("x", [1], TensorProto.STRING)],
    ),
    STRINGS,
)
for mode in ("reflect", "wrap", "edge"):
    case(
        f"{mode} 2**25 times",
        model_of(
            [make_node("Pad", ["x", "p"], ["y"], mode=mode)],
            [ints("p", [0, 1 << 25])],
            inputs=[value("x", [3])],
        ),
        {"x": np.ones(3, np.float32)},
    )
for number in ("nan", "inf"):
    case(
        f"Resize by {number}",
        model_of(
            [make_node("Resize", ["x", "", "s"], ["y"], mode="nearest")],
            [make_tensor("s", FLOAT, [1], [float(number)])],
            inputs=[value("x", ["n"])],
        ),
        {"x": np.ones(3, np.float32)},
    )
    case(
        f"Resize by an input, {number}",
        model_of(
            [make_node("Resize", ["x", "", "s"], ["y"], mode="nearest")],
            inputs=[value("x", ["n"]), value("s", [1])],
        ),
        {"x": np.ones(3, np.float32), "s": np.array([number], np.float32)},
    )
    case(
        f"Range up to {number}",
        model_of(
            [make_node("Range", ["a", "x", "b"], ["y"])],
            [make_tensor("a", FLOAT, [], [0.0]), make_tensor("b", FLOAT, [], [1.0])],
            inputs=[value("x", [])],
        ),
        {"x": np.array(number, np.float32)},
    )
case(
    "regions read at 2**30 places",
    model_of(
        [make_node("RoiAlign", ["x", "r", "i"], ["y"], sampling_ratio=1 << 30)],
        [make_tensor("r", FLOAT, [1, 4], [0, 0, 1, 1]), ints("i", [0])],
        inputs=[value("x", [1, 1, 4, 4])],
    ),
    {"x": np.ones((1, 1, 4, 4), np.float32)},
)
case(
    "no elements of 2**62 rows",
    model_of(
        [make_node("ConstantOfShape", ["s"], ["e"]), make_node("Size", ["e"], ["y"])],
        [ints("s", [1 << 62, 0, 1 << 62])],
    ),
)

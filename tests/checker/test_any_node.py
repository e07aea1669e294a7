"""One node of each operator, with inputs and attributes drawn at random: the check tells what is wrong and
never fails itself.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from assay.formats.onnx_file import from_proto
from assay.graph.listing import listing, parse
from assay.ops.standard import registry
from assay.ops.standard.definition import Definition
from assay.ops.standard.schema import DEFAULT, Attribute, Port, newest, split_name
from assay.ops.standard.typed import typed
from assay.runtime.model import analyse

DRAWS = 12
TYPES = {
    "float": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "string": 8, "bool": 9, "float16": 10,
    "double": 11,
}  # fmt: skip


def attribute(key: str, each: Attribute, definition: Definition, draw: random.Random) -> object:
    """A value of the attribute's kind, often one that is admitted."""
    admitted = definition.ranges.get(key)
    if admitted and admitted.choices and draw.random() < 0.7:
        chosen = draw.choice(admitted.choices)
        return [chosen] * draw.randrange(1, 3) if each.kind.endswith("s") else chosen
    numbers = [draw.choice((-2, -1, 0, 1, 1, 2, 3)) for _ in range(draw.randrange(5))]
    return {
        "int": draw.choice((-3, -1, 0, 1, 2, 7)),
        "ints": numbers,
        "float": draw.choice((0.0, 1.5, -1.0)),
        "floats": list(map(float, numbers)),
        "string": draw.choice(("", "x", "linear", "NOTSET")),
        "strings": ["a", "b"][: len(numbers)],
        "tensor": numpy_helper.from_array(np.array(numbers[:1], np.float32)),
    }.get(each.kind)


def value(name: str, port: Port, draw: random.Random) -> tuple[onnx.ValueInfoProto, onnx.TensorProto | None]:
    """An input of a type that is admitted, mostly; of integers sometimes a constant."""
    plain = [text for text in TYPES if f"tensor({text})" in port.types]
    if not plain:
        text = draw.choice(sorted(port.types))
        kind = helper.make_tensor_type_proto(1, None)
        kind = helper.make_sequence_type_proto(kind) if text.startswith("seq") else kind
        return helper.make_value_info(name, kind), None
    text = draw.choice(plain) if draw.random() < 0.95 else draw.choice(list(TYPES))
    rank = draw.choice((0, 1, 1, 2, 2, 3, 4))
    shape: list[int | str] | None = [draw.choice((1, 2, 3, 4, 0, "n", "m")) for _ in range(rank)]
    constant = None
    if text in ("int64", "int32", "float") and draw.random() < 0.6 and rank < 3:
        sizes = [each if isinstance(each, int) else 2 for each in shape or ()]
        array = np.array([draw.randrange(-3, 5) for _ in range(int(np.prod(sizes)))]).reshape(sizes)
        constant = numpy_helper.from_array(array.astype({"float": "float32"}.get(text, text)), name)
        shape = list(sizes)
    return helper.make_tensor_value_info(name, TYPES[text], None if draw.random() < 0.05 else shape), constant


def models(definition: Definition) -> Iterator[onnx.ModelProto]:
    draw = random.Random(definition.name)
    schema = definition.schema
    domain, op = split_name(definition.name)
    for _ in range(DRAWS):
        ports = [port for port in schema.inputs for _ in range(draw.randrange(1, 3) if port.variadic else 1)]
        ports = ports if draw.random() < 0.9 else ports[: draw.randrange(len(ports) + 1)]
        names = ["" if p.optional and draw.random() < 0.4 else f"x{n}" for n, p in enumerate(ports)]
        pairs = [value(name, port, draw) for name, port in zip(names, ports, strict=True) if name]
        given = {
            key: found
            for key, each in schema.attributes.items()
            if each.required or draw.random() < 0.5
            if (found := attribute(key, each, definition, draw)) is not None
        }
        outputs = [
            f"y{number}"
            for number in range(draw.randrange(1, len(schema.outputs) + 1) if schema.outputs else 0)
        ]
        own = "" if domain == DEFAULT else domain
        node = helper.make_node(op, names, outputs, domain=own, **{k: v for k, v in given.items() if v != []})
        weights = [constant for _, constant in pairs if constant is not None]
        inputs = [info for info, constant in pairs if constant is None]
        ends = [onnx.ValueInfoProto(name=name) for name in outputs]
        opsets = [helper.make_opsetid(own, newest(domain))]
        yield helper.make_model(helper.make_graph([node], "g", inputs, ends, weights), opset_imports=opsets)


@pytest.mark.parametrize("definition", registry.all_definitions(), ids=lambda each: each.name)
def test_the_check_never_fails(definition: Definition) -> None:
    for model in models(definition):
        read = from_proto(model)
        found = analyse(read)
        assert all(error.rule and error.place for error in found.errors)
        shown = typed(read.graph, found)
        assert parse(listing(shown)) == shown

"""The listing: a pinned text, the round trip of any graph, and a parser that survives any text."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from assay.errors import FormatError
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Literal, Node, Reference, ValueType
from assay.graph.listing import first_node_line, listing, parse
from assay.tensor.dtype import F32, I64, MAP, OPTIONAL, PLAIN, QUANTISED, SEQUENCE, DType

TINY = Graph(
    "tiny",
    ("x",),
    ("blk.0.w", "odd name"),
    ("cache",),
    (
        Node("rms_norm", ("x", "blk.0.w"), ("h",), {"eps": 1e-05}, "blk.0.norm"),
        Node(
            "top_k",
            ("h",),
            ("v", "i"),
            {"k": 3, "largest": True, "mode": "a\nb", "axes": (0, -1), "f": (0.5,)},
        ),
        Node("write", ("cache", "v"), ("cache'1",), name="weight"),
        Node("nothing", (), ()),
    ),
    ("v", "i"),
    {
        "x": ValueType.of(F32, "T", 64), "blk.0.w": ValueType.of(F32, 64), "odd name": ValueType.of(F32),
        "cache": ValueType.of(F32, "2*P + 1", 64), "cache'1": ValueType.of(F32, "2*P + 1", 64),
        "h": ValueType.of(F32, "T", 64), "v": ValueType.of(F32, "T", 3), "i": ValueType.of(I64, "T", 3),
    },
)  # fmt: skip

TEXT = """\
    1  graph tiny
    2  input x: float32[T, 64]
    3  weight blk.0.w: float32[64]
    4  weight "odd name": float32[]
    5  state cache: float32[2*P + 1, 64]
    6  h: float32[T, 64] = rms_norm(x, blk.0.w; eps=1e-05)  # blk.0.norm
    7  v: float32[T, 3], i: int64[T, 3] = top_k(h; k=3, largest=true, mode="a\\nb", axes=[0, -1], f=[0.5])
    8  cache'1: float32[2*P + 1, 64] = write(cache, v)  # "weight"
    9   = nothing()
   10  output v
   11  output i
"""


def test_text() -> None:
    assert listing(TINY) == TEXT
    assert parse(TEXT) == TINY


def test_line_numbers() -> None:
    lines = listing(TINY).splitlines()
    for number, node in enumerate(TINY.nodes, start=first_node_line(TINY)):
        assert lines[number - 1].startswith(f"{number:>5}  ")
        assert f"{node.op}(" in lines[number - 1]


def test_numbers_and_spacing_are_free() -> None:
    assert parse("graph g\n\n  input x:float32[ T,2 ]\r\ny : float32[T] =f( x;k = 1 )#n\noutput y") == Graph(
        "g", ("x",), (), (), (Node("f", ("x",), ("y",), {"k": 1}, "n"),), ("y",),
        {"x": ValueType.of(F32, "T", 2), "y": ValueType.of(F32, "T")},
    )  # fmt: skip


names = st.one_of(
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_./'-]{0,8}", fullmatch=True),
    st.sampled_from(
        ["graph", "input", "weight", "state", "output", "node", "true", "nan", "1", "", "a b", "ü", "x:y"]
    ),
    st.text(max_size=6),
)
scalars = st.one_of(
    st.integers(-(2**63), 2**63), st.floats(allow_nan=False), st.text(max_size=6), st.booleans()
)
attribute_values: st.SearchStrategy[AttributeValue] = st.one_of(
    scalars,
    st.lists(st.integers(), max_size=3).map(tuple),
    st.lists(st.floats(allow_nan=False), max_size=3).map(tuple),
    st.lists(st.text(max_size=6), max_size=3).map(tuple),
)
dims = st.one_of(
    st.integers(-5, 10**12).map(Dim.of),
    st.sampled_from(["T", "2*T + 1", "past*T - 1*seq_2 + 3", "-1*a*a"]).map(Dim.of),
)
types = st.builds(ValueType, st.sampled_from((*PLAIN, *QUANTISED)), st.lists(dims, max_size=4).map(tuple))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any graph at all, sound or not; values may lack a type, and a name may be defined twice."""
    pool = draw(st.lists(names, min_size=1, max_size=8))
    some = st.lists(st.sampled_from(pool), max_size=3).map(tuple)
    node = st.builds(Node, names, some, some, st.dictionaries(names, attribute_values, max_size=3), names)
    inputs, weights, states, outputs = (draw(some) for _ in range(4))
    nodes = tuple(draw(st.lists(node, max_size=4)))
    defined = {*inputs, *weights, *states, *(name for node in nodes for name in node.outputs)}
    typed = {name: draw(types) for name in sorted(defined) if draw(st.booleans())}
    return Graph(draw(names), inputs, weights, states, nodes, outputs, typed)


@st.composite
def literals(draw: st.DrawFn, dtype: DType | None = None) -> Literal:
    """Tensors of every element type, of any bits; short and long, empty and of no axes."""
    dtype = dtype or draw(st.sampled_from(PLAIN))
    sizes = draw(st.sampled_from([(), (0,), (3,), (2, 2), (2, 0, 3), (65,)]))
    count = math.prod(sizes)
    if dtype.kind == "string":
        flat = np.array([*draw(st.lists(st.text(max_size=3), min_size=count, max_size=count)), None])[:-1]
    else:
        raw = draw(st.binary(min_size=count * dtype.numpy.itemsize, max_size=count * dtype.numpy.itemsize))
        flat = np.frombuffer(raw if dtype.name != "bool" else bytes(b & 1 for b in raw), dtype.numpy)
    return Literal.of(dtype, flat.reshape(sizes))


held = st.recursive(
    types,
    lambda inner: st.builds(
        lambda dtype, element: ValueType(dtype, (), element), st.sampled_from([SEQUENCE, OPTIONAL]), inner
    ),
    max_leaves=3,
)
containers = st.one_of(
    held, st.builds(lambda key, element: ValueType(MAP, (), ValueType(key, (), element)), st.just(I64), held)
)


@st.composite
def written_graphs(draw: st.DrawFn, depth: int = 0) -> Graph:
    """Graphs as files have them: sets of operators, functions, bodies, tensors and types in attributes."""
    inner = draw(graphs())
    more: st.SearchStrategy[AttributeValue] = st.one_of(
        literals(),
        containers,
        st.builds(Reference, names),
        st.lists(literals(), min_size=1, max_size=2).map(tuple),
        st.lists(containers, min_size=1, max_size=2).map(tuple),
        *([written_graphs(depth=depth + 1)] if depth < 2 else []),
    )
    nodes = [
        Node(
            node.op,
            node.inputs,
            node.outputs,
            {**node.attributes, **draw(st.dictionaries(names, more, max_size=2))},
        )
        for node in inner.nodes
    ]
    functions = draw(st.lists(written_graphs(depth=depth + 1), max_size=1)) if not depth else []
    types = {name: draw(containers) for name in inner.types}
    opsets = draw(st.dictionaries(names, st.integers(0, 30), max_size=2))
    parameters = (
        draw(st.dictionaries(names, st.none() | attribute_values | literals(), max_size=2)) if depth else {}
    )
    return Graph(
        inner.name, inner.inputs, inner.weights, inner.states, tuple(nodes), inner.outputs, types, opsets,
        tuple(functions), parameters,
    )  # fmt: skip


def kinds(value: AttributeValue) -> object:
    """Type and bits: 1, 1.0 and True are equal in Python, and so are 0.0 and -0.0."""
    if isinstance(value, tuple):
        return [kinds(item) for item in value]
    return type(value), struct.pack("<d", value) if isinstance(value, float) else value


@given(graphs())
def test_round_trip(graph: Graph) -> None:
    text = listing(graph)
    assert text.isascii()
    back = parse(text)
    assert back == graph
    for ours, theirs in zip(graph.nodes, back.nodes, strict=True):
        assert list(ours.attributes) == list(theirs.attributes)
        assert {k: kinds(v) for k, v in ours.attributes.items()} == {
            k: kinds(v) for k, v in theirs.attributes.items()
        }
    assert listing(back) == text


@given(written_graphs())
@settings(max_examples=40, phases=[Phase.explicit, Phase.generate])
def test_round_trip_of_files_graphs(graph: Graph) -> None:
    text = listing(graph)
    assert text.isascii()
    back = parse(text)
    assert back == graph
    assert listing(back) == text
    assert back == back.numbered() and [node.line for node in back.nodes] == [
        node.line for node in back.numbered().nodes
    ]


@pytest.mark.parametrize("dtype", PLAIN, ids=str)
def test_a_short_tensor_is_there_again(dtype: DType) -> None:
    array = np.array(["a", "", "ü\n"], object) if dtype.kind == "string" else np.array([0, 1, 1], dtype.numpy)
    for value in (array, array[:1].reshape(()), array[:0].reshape(0, 4)):
        node = Node("f", (), ("y",), {"value": Literal.of(dtype, value)})
        graph = Graph("g", (), (), (), (node,), (), {})
        back = parse(listing(graph))
        assert back == graph
        literal = back.nodes[0].attributes["value"]
        assert isinstance(literal, Literal)
        np.testing.assert_array_equal(literal.array(), value, strict=True)


@given(st.text(min_size=1))
def test_the_first_line_can_name_the_file(file: str) -> None:
    text = listing(TINY, file)
    first, rest = text.split("\n", 1)
    assert rest == listing(TINY).split("\n", 1)[1]
    assert first.startswith("    1  graph tiny  # ") and first.isascii()
    assert parse(text) == TINY


def test_nan_survives() -> None:
    graph = Graph("g", (), (), (), (Node("f", (), (), {"x": math.nan, "y": (math.inf, -math.inf)}),), (), {})
    attributes = parse(listing(graph)).nodes[0].attributes
    assert math.isnan(attributes["x"])  # type: ignore[arg-type]
    assert attributes["y"] == (math.inf, -math.inf)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


PIECES = (
    *("graph g\n", "input ", "weight ", "state ", "output ", "x", "y", '"', '"a"', "\\", "\\u12", ": "),
    *("float32", "[", "]", "T", ", ", " = ", "f", "(", ")", "; ", "k=", "1", "-", "1e5", "9" * 5000),
    *("true", "nan", " # ", "\n", "*", "+ "),
)


@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_pieces_of_listings_are_read_or_refused(text: str) -> None:
    read_or_refuse(text)
    read_or_refuse("graph g\n" + text)


@given(st.data())
def test_damaged_listings_are_read_or_refused(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(TEXT)))
    end = data.draw(st.integers(start, min(len(TEXT), start + 8)))
    read_or_refuse(TEXT[:start] + data.draw(st.text(max_size=3)) + TEXT[end:])


def read_or_refuse(text: str) -> None:
    """What is read prints and reads back the same; a refusal has a line that exists and a column in it."""
    try:
        graph = parse(text)
    except FormatError as error:
        line, _, column = error.place.removeprefix("line ").partition(", column ")
        lines = text.split("\n")
        assert 1 <= int(line) <= len(lines)
        assert not column or 1 <= int(column) <= len(lines[int(line) - 1]) + 1
        assert error.want
        assert error.got
    else:
        assert listing(parse(listing(graph))) == listing(graph)


@pytest.mark.parametrize(
    ("text", "place", "want", "got"),
    [
        ("", "line 1", "graph NAME", "''"),
        ("graph", "line 1, column 6", "a name", "the end of the line"),
        ("graph g\ngraph h", "line 2, column 1", None, "'graph h'"),
        ("input x: float32[]", "line 1, column 1", None, "'input x: float32[]'"),
        ("graph g\noutput y\ninput x: float32[]", "line 3, column 1", None, "'input x: float32[]'"),
        ("graph g\ninput x: float33[]", "line 2, column 10", None, "'float33[]'"),
        (
            "graph g\ninput x: float32[T T]",
            "line 2, column 18",
            "a dimension, such as 64 or 2*T + 1",
            "'T T]'",
        ),
        ("graph g\ninput x: float32[1", "line 2, column 19", "','", "the end of the line"),
        ("graph g\ninput x: float32[] y", "line 2, column 20", "the end of the line", "'y'"),
        ("graph g\ninput x: float32[]\nweight x: int64[]", "line 3, column 8", None, "'x: int64[]'"),
        ("graph g\ny f(x)", "line 2, column 3", "','", "'f(x)'"),
        ("graph g\ny = f(x", "line 2, column 8", "','", "the end of the line"),
        ("graph g\ny = f(x; k=1, k=2)", "line 2, column 15", "each attribute once", "'k=2)'"),
        ("graph g\ny = f(x; k=[1, 2.0])", "line 2, column 12", None, "'[1, 2.0])'"),
        ("graph g\ny = f(x; k=[true])", "line 2, column 12", None, "'[true])'"),
        ("graph g\ny = f(x; k=null)", "line 2, column 12", None, "'null)'"),
        ('graph g\ny = f(x; k={"a": 1})', "line 2, column 12", None, "'{\"a\": 1})'"),
        ("graph g\ny = f(x; k=[[1]])", "line 2, column 12", None, "'[[1]])'"),
        ("graph g\ny = f(x; k=" + "[" * 10**5, "line 2, column 12", None, repr("[" * 40)),
        ("graph g\ny = f(x; k=text)", "line 2, column 12", None, "'text)'"),
        ('graph g\ny = f("\\q")', "line 2, column 7", "a string with JSON's escapes", "'\"\\\\q\")'"),
        ('graph g\ny = f("x)', "line 2, column 7", "a string with JSON's escapes", "'\"x)'"),
    ],
)
def test_refusals(text: str, place: str, want: str | None, got: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse(text)
    assert (caught.value.place, caught.value.got) == (place, got)
    assert want is None or caught.value.want == want

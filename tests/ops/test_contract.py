"""Every kind of violation, by its fields, and a few texts in full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.errors import ContractError
from assay.graph.dim import Dim
from assay.graph.graph import AttributeValue, Graph, Node, ValueType
from assay.graph.listing import listing, parse
from assay.ops import registry
from assay.ops.contract import check, require
from assay.ops.resolution import resolve
from assay.tensor.dtype import F16, F32, I64, Q8_0
from toys import WRITE

pytestmark = pytest.mark.usefixtures("toys")

GOOD = """
    1  graph tiny
    2  input x: float32[T, 64]
    3  input slots: int32[T]
    4  weight w: float32[32, 64]
    5  weight n: float32[64]
    6  weight unused: q8_0[4, 64]
    7  state cache: float16[P, 32]
    8  h: float32[T, 64] = toy_norm(x, n; eps=0.001)  # norm
    9  y: float32[T, 32] = toy_matmul(h, w)  # proj
   10  cache'1: float16[P, 32] = toy_write(cache, y, slots)  # write
   11  z: float32[T, 32] = toy_attend(y, cache'1)
   12  values: float32[T, 3], indices: int64[T, 3] = toy_top(z; k=3)  # top
   13  output values
   14  output indices
"""


def changed(*edits: tuple[str, str]) -> Graph:
    text = GOOD
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return parse(text)


def violation(*edits: tuple[str, str]) -> ContractError:
    found = check(changed(*edits))
    assert len(found) == 1, "\n".join(map(str, found))
    return found[0]


def fields(error: ContractError) -> tuple[str, str, str, str]:
    return error.place, error.rule, error.want, error.got


def test_a_good_graph_has_no_violations() -> None:
    assert check(parse(GOOD)) == []


def test_resolution() -> None:
    graph = parse(GOOD)
    top = resolve(graph.nodes[-1], graph.types)
    assert top.operator.name == "toy_top"
    assert dict(top.attributes) == {"k": 3, "mode": "descending", "stable": True}
    assert dict(top.dims) == {"T": Dim.of("T"), "N": Dim.of(32)}
    assert top.inputs == (ValueType.of(F32, "T", 32),)
    assert top.outputs == (ValueType.of(F32, "T", 3), ValueType.of(I64, "T", 3))
    norm = resolve(graph.nodes[0], graph.types)
    assert dict(norm.attributes) == {"eps": 0.001}
    assert norm.dims["..."] == Dim.of("T")


def test_resolve_raises() -> None:
    with pytest.raises(ContractError) as caught:
        resolve(Node("toy_norm", ("x", "w"), ("y",)), {"x": ValueType.of(F32, 4)})
    assert fields(caught.value) == ('node "y" (toy_norm)', "input undefined", "a value with a type", "w")
    types = {"x": ValueType.of(F32, 4), "w": ValueType.of(F32, 5)}
    with pytest.raises(ContractError) as caught:
        resolve(Node("toy_norm", ("x", "w"), ("y",)), types)
    assert caught.value.got == "5 in w: float32[5]"


def test_the_output_has_the_dtype_of_the_input_that_it_is_like() -> None:
    types = {"a": ValueType.of(F16, 4), "b": ValueType.of(F16, 4)}
    assert resolve(Node("toy_add", ("a", "b"), ("y",)), types).outputs == (ValueType.of(F16, 4),)


def test_unknown_operator() -> None:
    error = violation(("toy_attend(", "toy_atend("))
    assert fields(error) == (
        'tiny › line 11 › node "z" (toy_atend)', "unknown operator", "a registered operator", "toy_atend"
    )  # fmt: skip
    assert error.hint.startswith("did you mean toy_attend")


def test_arity() -> None:
    place = 'tiny › line 8 › node "norm" (toy_norm)'
    error = violation(("(x, n;", "(x;"))
    assert fields(error) == (place, "wrong number of inputs", "2: x, w", "1")
    assert error.hint == "assay contract toy_norm"
    error = violation(("h: float32[T, 64] =", "h: float32[T, 64], i: float32[T] ="))
    assert fields(error) == (place, "wrong number of outputs", "1: y", "2")


def test_dtype() -> None:
    error = violation(("slots: int32", "slots: int64"))
    assert fields(error) == (
        'tiny › line 10 › node "write" (toy_write)',
        "input slots: dtype not admitted",
        "int32",
        "int64 in slots: int64[T], an input, line 3",
    )
    error = violation(("weight w: float32", "weight w: float16"))
    assert error.rule == "input w: dtype not admitted"
    assert error.want == "float32, as x has"
    assert error.got == "float16 in w: float16[32, 64], a weight, line 4"


def test_rank() -> None:
    error = violation(("slots: int32[T]", "slots: int32[T, 1]"))
    assert fields(error)[1:] == (
        "input slots: wrong rank", "1 for [T]", "2 in slots: int32[T, 1], an input, line 3"
    )  # fmt: skip


def test_dimensions_name_the_node_that_made_the_value() -> None:
    error = violation(("weight w: float32[32, 64]", "weight w: float32[32, 96]"))
    assert str(error) == (
        'tiny › line 9 › node "proj" (toy_matmul): input w: axis 1 disagrees\n'
        "  wanted K = 64 (K from x[1])\n"
        "  got    96 in w: float32[32, 96], a weight, line 4\n"
        "  hint   assay contract toy_matmul"
    )
    error = violation(("state cache: float16[P, 32]", "state cache: float16[P, 31]"),
                      ("cache'1: float16[P, 32]", "cache'1: float16[P, 31]"),
                      ("toy_attend(y, cache'1)", "toy_add(y, y)"))  # fmt: skip
    assert error.got == '32 in y: float32[T, 32], made by node "proj" (toy_matmul), line 9'


def test_expression() -> None:
    types = {"x": ValueType.of(F32, "T", 577), "w": ValueType.of(F32, 64)}
    with pytest.raises(ContractError) as caught:
        resolve(Node("toy_split", ("x", "w"), ("y",), {"heads": 9}), types)
    assert caught.value.rule == "input x: axis 1 disagrees"
    want = "heads*head_dim = 576 (head_dim = 64 from w[0], heads = 9 from an attribute)"
    assert (caught.value.want, caught.value.got) == (want, "577 in x: float32[T, 577]")


def test_relation_gives_the_hint() -> None:
    error = violation(("T, 64]", "T, 65]"), ("n: float32[64]", "n: float32[65]"), ("[32, 64]", "[32, 65]"))
    assert str(error) == (
        'tiny › line 9 › node "proj" (toy_matmul): relation broken\n'
        "  wanted K % 32 == 0\n"
        "  got    T = T, K = 65, N = 32\n"
        "  hint   pad the rows of both inputs"
    )


@pytest.mark.parametrize(
    ("attributes", "rule", "want", "got"),
    [
        ({}, "attribute k missing", "int, at least 1", "nothing"),
        ({"k": 3, "kk": 1}, "unknown attribute kk", "k or mode or stable", "1"),
        ({"k": 3.0}, "attribute k: wrong kind of value", "int, at least 1", "3.0"),
        ({"k": True}, "attribute k: wrong kind of value", "int, at least 1", "True"),
        ({"k": (3,)}, "attribute k: wrong kind of value", "int, at least 1", "(3,)"),
        ({"k": 0}, "attribute k: out of range", "int, at least 1", "0"),
        ({"k": 3, "stable": 1}, "attribute stable: wrong kind of value", "bool", "1"),
        (
            {"k": 3, "mode": "up"},
            "attribute mode: not one of the choices",
            "str, descending | ascending",
            "'up'",
        ),
    ],
)
def test_attributes(attributes: dict[str, AttributeValue], rule: str, want: str, got: str) -> None:
    graph = parse(GOOD)
    node = replace(graph.nodes[-1], attributes=attributes)
    found = check(replace(graph, nodes=(*graph.nodes[:-1], node)))
    assert [fields(error) for error in found] == [('tiny › line 12 › node "top" (toy_top)', rule, want, got)]


@pytest.mark.parametrize(
    ("eps", "rule"),
    [
        ("NaN", "attribute eps: not finite"),
        ("Infinity", "attribute eps: not finite"),
        ("1.5", "attribute eps: out of range"),
        ("-0.1", "attribute eps: out of range"),
        ("1", "attribute eps: wrong kind of value"),
    ],
)
def test_float_attributes(eps: str, rule: str) -> None:
    error = violation(("eps=0.001", f"eps={eps}"))
    assert (error.rule, error.want) == (rule, "finite float, 0.0 to 1.0")
    assert error.hint == "added to the mean square"


@pytest.mark.parametrize("eps", ["0.0", "1.0"])
def test_the_ends_of_a_range_belong_to_it(eps: str) -> None:
    assert check(changed(("eps=0.001", f"eps={eps}"))) == []


def test_an_unknown_attribute_suggests_a_near_one() -> None:
    error = violation(("eps=0.001", "epsi=0.001"))
    assert (error.rule, error.hint) == ("unknown attribute epsi", "did you mean eps?")


def test_declared_types() -> None:
    error = violation(("z: float32[T, 32]", "z: float32[T, 33]"))
    assert fields(error) == (
        'tiny › line 11 › node "z" (toy_attend)',
        "output z: contradicts its declared type",
        "float32[T, 33], as declared",
        "float32[T, 32], as inferred",
    )
    error = violation(("z: float32[T, 32]", "z"))
    assert fields(error)[1:] == ("output z: no type declared", "float32[T, 32]", "nothing")
    error = violation(("unused: q8_0[4, 64]", "unused"))
    assert fields(error) == (
        "tiny › line 6 › weight unused",
        "no type declared",
        "dtype and shape",
        "nothing",
    )


def test_undefined_input() -> None:
    error = violation(("toy_norm(x, n", "toy_norm(xs, n"))
    assert fields(error) == (
        'tiny › line 8 › node "norm" (toy_norm)', "value undefined", "a value of the lines above", "xs"
    )  # fmt: skip
    assert error.hint == "did you mean x?"


def test_input_defined_later() -> None:
    error = violation(("toy_matmul(h, w)", "toy_matmul(z, w)"))
    assert error.rule == "value used before it is made"
    assert error.got == 'z, made by node "z" (toy_attend), line 11'


def test_names_are_defined_once() -> None:
    error = violation(("weight unused: q8_0[4, 64]", "weight x: float32[T, 64]"))
    assert fields(error) == (
        "tiny › line 6 › weight x", "value defined twice", "a name of its own", "x, an input, line 2"
    )  # fmt: skip
    error = violation(("indices: int64[T, 3]", "n: float32[64]"), ("output indices", ""))
    assert (error.rule, error.got) == ("value defined twice", "n, a weight, line 5")


def test_a_name_is_not_empty() -> None:
    error = violation(("weight unused:", 'weight "":'))
    assert fields(error) == ('tiny › line 6 › weight ""', "value without a name", "a name", '""')


def test_in_place_needs_a_state() -> None:
    error = violation(
        ("state cache: float16[P, 32]\n", "\n"),
        ("slots: int32[T]", "slots: int32[T]\ninput cache: float16[P, 32]"),
    )
    assert error.rule == "input cache: changed in place"
    assert (error.want, error.got) == ("a state", "cache, an input, line 4")


def test_a_changed_state_has_a_new_name() -> None:
    error = violation(("toy_attend(y, cache'1)", "toy_attend(y, cache)"))
    assert fields(error) == (
        'tiny › line 11 › node "z" (toy_attend)',
        "state read after its change",
        "cache'1",
        'cache, changed by node "write" (toy_write), line 10',
    )


def test_a_second_change_goes_through_the_new_name() -> None:
    again = "cache'2: float16[P, 32] = toy_write({}, y, slots)\n   11  z:"
    assert (
        check(changed(("z:", again.format("cache'1")), ("toy_attend(y, cache'1)", "toy_attend(y, cache'2)")))
        == []
    )
    error = violation(("z:", again.format("cache'1")))
    assert (error.rule, error.want) == ("state read after its change", "cache'2")
    error = violation(("z:", again.format("cache")), ("toy_attend(y, cache'1)", "toy_attend(y, cache'2)"))
    assert (error.rule, error.want) == ("state read after its change", "cache'1")


def test_a_state_is_not_read_by_the_node_that_changes_it() -> None:
    source = replace(WRITE.inputs[0], name="source")
    registry.register(
        replace(WRITE, name="toy_move", inputs=(WRITE.inputs[0], source), not_differentiable={})
    )
    error = violation(("toy_write(cache, y, slots)", "toy_move(cache, cache)"))
    assert fields(error)[1:] == (
        "input cache: changed and read by one node", "one use", "cache, a state, line 7"
    )  # fmt: skip


def test_outputs() -> None:
    error = violation(("output indices", "output index"))
    assert fields(error) == (
        "tiny › line 14 › output index", "value undefined", "a value of the lines above", "index"
    )  # fmt: skip
    assert violation(("output indices", "output cache")).rule == "state read after its change"


def test_impossible_types() -> None:
    error = violation(("unused: q8_0[4, 64]", "unused: q8_0[4, 65]"))
    assert fields(error) == (
        "tiny › line 6 › weight unused",
        "rows are not whole blocks",
        "a last dimension that is a multiple of 32",
        "q8_0[4, 65]",
    )
    assert violation(("unused: q8_0[4, 64]", "unused: q8_0[64, T]")).rule == "rows are not whole blocks"
    assert violation(("unused: q8_0[4, 64]", "unused: q8_0[-4, 64]")).rule == "negative dimension"
    assert Q8_0.block == 32


def test_all_violations_in_one_go_in_the_order_of_the_listing() -> None:
    graph = changed(
        ("eps=0.001", "eps=2.0"),
        ("slots: int32", "slots: int64"),
        ("output indices", "output no"),
        ("toy_attend(", "toy_attending("),
    )
    found = check(graph)
    assert [error.place.split(" › ")[1] for error in found] == ["line 8", "line 10", "line 11", "line 14"]


def test_a_graph_with_violations_is_refused_with_all_of_them() -> None:
    require(parse(GOOD))
    graph = changed(("eps=0.001", "eps=2.0"), ("output indices", "output no"))
    with pytest.raises(ContractError) as caught:
        require(graph)
    error = caught.value
    assert list(map(fields, error.violations)) == list(map(fields, check(graph)))
    assert error.rule == "2 contracts are broken"
    assert str(error).splitlines()[1:] == [line for each in check(graph) for line in str(each).splitlines()]
    assert error.at("model.onnx") is error
    assert [each.place.split(" › ")[:2] for each in error.violations] == [["model.onnx", "tiny"]] * 2


def test_a_single_violation_is_raised_as_it_is() -> None:
    graph = changed(("eps=0.001", "eps=2.0"))
    with pytest.raises(ContractError) as caught:
        require(graph)
    assert fields(caught.value) == fields(violation(("eps=0.001", "eps=2.0")))
    assert caught.value.violations == (caught.value,)
    assert caught.value.at("outer").place.startswith("outer › tiny › line 8")


def test_one_fault_is_told_once() -> None:
    """What a faulty node makes has its declared type for the nodes below, and stays a state."""
    assert len(check(changed(("toy_write(cache, y, slots)", "toy_write(cache, y, slot)")))) == 1
    assert len(check(changed(("toy_norm(x, n; eps=0.001)", "toy_norm(x)")))) == 1


def test_a_fault_hides_none_below_it() -> None:
    found = check(
        changed(("toy_norm(x, n; eps=0.001)", "toy_norm(x)"), ("w: float32[32, 64]", "w: float32[32, 96]"))
    )
    assert [error.place.split(" › ")[1] for error in found] == ["line 8", "line 9"]
    assert found[-1].got == "96 in w: float32[32, 96], a weight, line 4"


def test_places_are_the_lines_of_the_listing() -> None:
    graph = parse(GOOD)
    lines = listing(graph).splitlines()
    for index, node in enumerate(graph.nodes):
        wrong = replace(node, attributes={**node.attributes, "odd": 1})
        (error,) = check(replace(graph, nodes=(*graph.nodes[:index], wrong, *graph.nodes[index + 1 :])))
        number = int(error.place.split(" › ")[1].removeprefix("line "))
        assert lines[number - 1].startswith(f"{number:>5}  ") and f"= {node.op}(" in lines[number - 1]

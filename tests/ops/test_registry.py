"""Registration: what is refused, and what a wrong name is answered with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assay.errors import ContractError
from assay.ops import registry
from assay.ops.operator import Attribute, Exactness, Kernel, Operator, Port, Relation
from assay.tensor.dtype import F16, F32, I64
from toys import ADD, MATMUL, NORM, SPLIT, TOP, TOYS, WRITE


def test_every_family_registers_by_itself() -> None:
    names = [operator.name for operator in registry.all_operators()]
    assert names == sorted(set(names))


@pytest.mark.usefixtures("toys")
def test_found_by_name() -> None:
    assert registry.get("toy_matmul") is MATMUL
    assert registry.find("toy_matmul") is MATMUL
    assert registry.find("toy_matmull") is None
    assert all(toy in registry.all_operators() for toy in TOYS)


@pytest.mark.usefixtures("toys")
def test_an_unknown_name_suggests_near_ones() -> None:
    with pytest.raises(ContractError) as caught:
        registry.get("toy_matmull")
    assert (caught.value.rule, caught.value.got) == ("unknown operator", "toy_matmull")
    assert caught.value.hint.startswith("did you mean toy_matmul")
    with pytest.raises(ContractError) as caught:
        registry.get("zzz")
    assert caught.value.hint == "a package that adds operators must be imported first"


@pytest.mark.usefixtures("toys")
def test_a_name_is_taken_once() -> None:
    with pytest.raises(ContractError) as caught:
        registry.register(ADD)
    assert (caught.value.rule, caught.value.place) == ("operator name taken", 'operator "toy_add"')
    assert caught.value.got == "registered by toys already, now by toys"


def refused(operator: Operator) -> str:
    with pytest.raises(ContractError) as caught:
        registry.register(operator)
    assert caught.value.rule == "operator refused"
    assert registry.find(operator.name) is None
    return caught.value.got


def x(**fields: object) -> Port:
    return replace(Port("x", (F32,), "T K", "rows"), **fields)  # type: ignore[arg-type]


FIRST = Attribute("first", int, "an integer", low=1)

FAULTS = {
    "summary is empty": replace(ADD, summary=" "),
    "formula is empty": replace(ADD, formula=""),
    "x: doc is empty": replace(NORM, inputs=(x(dims="... N", doc=""), NORM.inputs[1])),
    "eps: doc is empty": replace(NORM, attributes=(Attribute("eps", float, "", 0.0),)),
    "relation 0: text is empty": replace(MATMUL, relations=(Relation("", lambda site: True),)),
    "numerics 0 is empty": replace(ADD, numerics=("",)),
    "x: reason is empty": replace(TOP, not_differentiable={"x": ""}),
    "kernel : name is empty": replace(ADD, kernels=(Kernel("", ADD.kernels[0].arguments),)),
    "kernel a: nothing is called T": replace(ADD, kernels=(Kernel("a", "a b y T"),)),
    "kernel a: nothing is called 2*a": replace(ADD, kernels=(Kernel("a", "2*a"),)),
    "kernel a: b is never int64": replace(ADD, kernels=(Kernel("a", "a b y", ("b", I64)),)),
    "kernel a: mode is never up": replace(TOP, kernels=(Kernel("a", "x", ("mode", "up")),)),
    "kernel a: size is never 1": replace(TOP, kernels=(Kernel("a", "x", ("size", 1)),)),
    "no kernels": replace(ADD, kernels=()),
    "no outputs": replace(ADD, outputs=()),
    "since is 0": replace(ADD, since=0),
    "exactness is 'about', not bitwise, ulp or seeded": replace(ADD, exactness=Exactness("about")),
    "exactness in ulp needs its reason": replace(ADD, exactness=Exactness("ulp", 2.0)),
    "exactness in ulp needs a bound above 0": replace(ADD, exactness=Exactness("ulp", 0.0, "a reason")),
    "the bound N ** 2 is no formula": replace(ADD, exactness=Exactness("ulp", "N ** 2", "a reason")),
    "the bound N / is no formula": replace(ADD, exactness=Exactness("ulp", "N /", "a reason")),
    "the bound N needs N, which is in no input's dimensions": replace(
        ADD, exactness=Exactness("ulp", "N", "a reason")
    ),
    "'Toy Add' is not a plain name": replace(ADD, name="Toy Add"),
    "two ports or attributes are called a": replace(ADD, attributes=(replace(FIRST, name="a"),)),
    "two kernels are called toy_toy_add": replace(ADD, kernels=ADD.kernels * 2),
    "an attribute can't be called output": replace(ADD, attributes=(replace(FIRST, name="output"),)),
    "first: choices are for text": replace(ADD, attributes=(replace(FIRST, choices=("1",)),)),
    "first: a range is for numbers": replace(ADD, attributes=(replace(FIRST, kind=bool),)),
    "first: the default is not int, at least 1": replace(ADD, attributes=(replace(FIRST, default=0),)),
    "a: no dtypes": replace(ADD, inputs=(replace(ADD.inputs[0], dtypes=()), ADD.inputs[1])),
    "x: not a dimension: '(T'": replace(NORM, inputs=(x(dims="(T"), NORM.inputs[1])),
    "x: no input binds head_dim": replace(SPLIT, inputs=(SPLIT.inputs[0], x(name="w", dims="1"))),
    "y: no input binds M": replace(ADD, outputs=(replace(ADD.outputs[0], dims="... M"),)),
    "y: no input binds ...": replace(MATMUL, outputs=(replace(MATMUL.outputs[0], dims="... N"),)),
    "y: of several dtypes, like which input?": replace(ADD, outputs=(replace(ADD.outputs[0], like=""),)),
    "a: like b, which is no input before it": replace(
        ADD, inputs=(replace(ADD.inputs[0], like="b"), ADD.inputs[1])
    ),
    "y: like z, which is no input": replace(ADD, outputs=(replace(ADD.outputs[0], like="z"),)),
    "y: lacks a dtype of a": replace(ADD, outputs=(replace(ADD.outputs[0], dtypes=(F16,)),)),
    "kernel toy_toy_matmul: no input begins with its rows K": replace(
        MATMUL, kernels=(replace(MATMUL.kernels[0], rows="K"),)
    ),
    "kernel toy_toy_matmul: y doesn't begin with its rows N": replace(
        MATMUL, kernels=(replace(MATMUL.kernels[0], rows="N"),)
    ),
    "kernel toy_toy_write: no input begins with its rows D": replace(
        WRITE, kernels=(replace(WRITE.kernels[0], rows="D"),)
    ),
    "kernel toy_toy_top: no input begins with its rows ...": replace(
        TOP, kernels=(replace(TOP.kernels[0], rows="..."),)
    ),
    "not_differentiable: no input z": replace(ADD, not_differentiable={"z": "why"}),
    "in_place: no output z or no input cache": replace(WRITE, in_place={"z": "cache"}),
    "in_place: changed has not the type of x": replace(WRITE, in_place={"changed": "x"}),
    "two outputs change a in place": replace(
        ADD, outputs=(*ADD.outputs, replace(ADD.outputs[0], name="z")), in_place={"y": "a", "z": "a"}
    ),
}  # fmt: skip


@pytest.mark.usefixtures("own_registry")
@pytest.mark.parametrize("problem", FAULTS)
def test_refuses(problem: str) -> None:
    assert problem in refused(FAULTS[problem]).split("; ")


@pytest.mark.usefixtures("own_registry")
def test_all_problems_are_told_at_once() -> None:
    assert refused(replace(ADD, summary="", kernels=())) == "summary is empty; no kernels"

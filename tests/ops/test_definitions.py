"""Records of ONNX operators are complete, and it is known which of them kernels don't run, and why."""

from __future__ import annotations

from operator import attrgetter

import pytest

from assay.errors import ContractError
from assay.ops.operator import Exactness
from assay.ops.standard import schema
from assay.ops.standard.definition import POSITIVE, WAYS, Definition
from assay.ops.standard.record import gaps, strangers
from assay.ops.standard.registry import all_definitions, define, find
from assay.ops.standard.site import Site

KNOWN = "its value is known before anything runs"
SIZES = "data decides how much it makes"
BODY = "it decides which graphs run; their nodes run on kernels"
LISTS = "it moves whole arrays in and out of lists and optionals"
TEXT = "it works on text"
PICTURE = "it decodes pictures"
LEARNED = "a model of ai.onnx.ml from before networks: no gradient"
PREVIEW = "not in the standard yet"
DRAWN = "each run may draw a seed"
RARE = "no graph of the catalogue has it"
ON_THE_HOST = {
    "Constant": KNOWN, "Shape": KNOWN, "Size": KNOWN,
    "Compress": SIZES, "NonMaxSuppression": SIZES, "NonZero": SIZES, "Unique": SIZES,
    "If": BODY, "Loop": BODY, "Scan": BODY, "SequenceMap": BODY,
    **dict.fromkeys(
        ("ConcatFromSequence", "Optional", "OptionalGetElement", "OptionalHasElement", "SequenceAt",
         "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
         "SplitToSequence"), LISTS),
    **dict.fromkeys(("RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
                    TEXT),
    "ImageDecoder": PICTURE, "RandomUniform": DRAWN, "RandomUniformLike": DRAWN,
    "Col2Im": RARE, "Det": RARE, "MaxRoiPool": RARE, "MaxUnpool": RARE, "MelWeightMatrix": RARE,
    "TensorScatter": RARE,
}  # fmt: skip
"""Operators that NumPy or the standard's evaluator runs, each with the reason; those of ai.onnx.ml and of the
preview domains go by their domain.
"""
every_definition = pytest.mark.parametrize("definition", all_definitions(), ids=attrgetter("name"))


def reason(name: str) -> str | None:
    domain, _ = schema.split_name(name)
    if domain == "ai.onnx.ml":
        return LEARNED
    return PREVIEW if domain.startswith("ai.onnx.preview") else ON_THE_HOST.get(name)


@every_definition
def test_record_is_complete(definition: Definition) -> None:
    assert [*gaps(definition), *strangers(definition)] == []
    assert definition.way in WAYS


def test_kernels_run_all_that_there_is_no_reason_against() -> None:
    ways = {definition.name: definition.way for definition in all_definitions()}
    host = {name for name, way in ways.items() if way in ("reference", "delegated")}
    assert sorted(name for name in host if reason(name) is None) == []
    assert sorted(name for name in ON_THE_HOST if name not in host) == []
    delegated = {name for name, way in ways.items() if way == "delegated"}
    assert {reason(name) for name in delegated} <= {KNOWN, TEXT, PICTURE, LEARNED, PREVIEW}


def nothing(site: Site) -> list[None]:
    return [None]


@pytest.mark.parametrize(
    ("fields", "got"),
    [
        ({"formula": " "}, "no formula"),
        ({"shapes": ""}, "no shapes"),
        ({"pointwise": nothing}, "no kernels"),
        ({"exactness": Exactness("ulp", 2)}, "a bound and its reason"),
        ({"exactness": Exactness("close")}, "not bitwise, ulp or seeded"),
        ({"not_differentiable": {"z": "integers"}}, "no input z"),
        ({"ranges": {"beta": POSITIVE}}, "no attribute beta"),
    ],
)
def test_records_with_gaps_are_refused(fields: dict[str, object], got: str) -> None:
    relu = schema.schema("Relu", 14)
    assert relu
    good: dict[str, object] = {"formula": "y = x", "shapes": "The input's.", "given": relu}
    with pytest.raises(ContractError, match=got):
        define("com.example.Refused", nothing, **{**good, **fields})
    assert find("com.example.Refused") is None

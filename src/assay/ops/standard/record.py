"""What an ONNX operator's record must hold."""

from __future__ import annotations

from collections.abc import Iterator

from assay.ops.standard.definition import Definition
from assay.ops.standard.schema import DEFAULT, split_name


def gaps(definition: Definition) -> Iterator[str]:
    """What is missing from a record, without a look at its schema."""
    texts = {"formula": definition.formula, "shapes": definition.shapes}
    texts |= {f"numerics {number}": text for number, text in enumerate(definition.numerics)}
    texts |= {f"reason of {name}": text for name, text in definition.not_differentiable.items()}
    texts |= {f"when {name} applies": when for name, when in definition.kernels}
    yield from (f"no {field}" for field, text in texts.items() if not text.strip())
    if not split_name(definition.name)[0].startswith(DEFAULT):
        if definition.given is None or definition.given.name != definition.name:
            yield "no schema of its name (given=)"
        if not (definition.native or definition.reference):
            yield "nothing that runs it (reference=, pointwise=, lower= or view=)"
    if (definition.pointwise or definition.lower) and not definition.kernels:
        yield "no kernels"
    if definition.exactness.kind not in ("bitwise", "ulp", "seeded"):
        yield f"exactness is {definition.exactness.kind!r}, not bitwise, ulp or seeded"
    if definition.exactness.kind == "ulp" and not (definition.exactness.ulp and definition.exactness.why):
        yield "exactness in ulp needs a bound and its reason"


def strangers(definition: Definition) -> Iterator[str]:
    """Names in a record that its schema doesn't know."""
    inputs = {port.name for port in definition.schema.inputs}
    yield from (f"no input {name}" for name in definition.not_differentiable if name not in inputs)
    yield from (
        f"no attribute {name}" for name in definition.ranges if name not in definition.schema.attributes
    )
    for name, admitted in definition.ranges.items():
        if admitted.axis is not None and admitted.axis >= len(definition.schema.inputs):
            yield f"{name} is an axis of input {admitted.axis}, which isn't there"

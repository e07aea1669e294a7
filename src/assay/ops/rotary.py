"""Rotary position embedding: a table for a step's positions, and the rotation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.ops.operator import (
    Address,
    Argument,
    Array,
    Attribute,
    Attributes,
    Case,
    Exactness,
    Kernel,
    Operator,
    Port,
    Relation,
    Site,
    integer,
)
from assay.ops.registry import register
from assay.tensor.dtype import F32, I32


def _table(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    positions, frequencies = inputs
    angles = (positions.astype(np.float32)[:, None] * frequencies.astype(np.float32)).astype(np.float64)
    return (np.concatenate([np.cos(angles), np.sin(angles)], axis=1),)


def _table_floor(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    return (np.maximum(np.abs(_table(inputs, attributes)[0]), 2.0**-26),)


def _table_arguments(site: Site) -> Sequence[Argument]:
    return Address("positions"), Address("frequencies"), Address("table"), site.dims["T"], site.dims["P"]


def _table_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for t, p in ((1, 1), (5, 32), (9, 40)):
        positions = rng.integers(0, 131072, t, dtype=np.int32)
        positions[0] = 0
        frequencies = (10000.0 ** (-np.arange(p) / p)).astype(np.float32)
        cases.append(
            Case((positions, frequencies), (ValueType.of(I32, t), ValueType.of(F32, p)), name=f"{t}×{p}")
        )
    return cases


register(
    Operator(
        name="rotary_table",
        since=1,
        summary="Cosines and sines of each position's angles.",
        formula=(
            "angle = position · frequency in float32;  table[t] = cos(angle[0 … P−1]), sin(angle[0 … P−1])"
        ),
        inputs=(
            Port("positions", (I32,), "T", "absolute positions, 0 ≤ position < 2²⁰"),
            Port("frequencies", (F32,), "P", "radians for each position"),
        ),
        outputs=(Port("table", (F32,), "T 2*P", "P cosines, then P sines"),),
        reference=_table,
        exactness=Exactness(
            "ulp", 1, "sine and cosine in float64 within 2⁻⁵⁰, rounded once to float32", _table_floor
        ),
        kernels=(Kernel("rotary.table", _table_arguments, rows="T"),),
        cases=_table_cases,
        not_differentiable={"positions": "integers", "frequencies": "constants of the model"},
    )
)


def _rotary(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    x, table = (array.astype(np.float64) for array in inputs)
    heads, d = integer(attributes, "heads"), integer(attributes, "head_dim")
    pairs = table.shape[1] // 2
    rows = x.reshape(len(x), heads, d)
    cosine, sine = table[:, None, :pairs], table[:, None, pairs:]
    y = rows.copy()
    left, right = (
        (slice(0, pairs), slice(pairs, 2 * pairs))
        if attributes["pairing"] == "halves"
        else (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2))
    )
    y[:, :, left] = rows[:, :, left] * cosine - rows[:, :, right] * sine
    y[:, :, right] = rows[:, :, left] * sine + rows[:, :, right] * cosine
    return (y.reshape(x.shape),)


def _rotary_terms(inputs: Sequence[Array], attributes: Attributes) -> tuple[Array, ...]:
    x, table = (np.abs(array) for array in inputs)
    pairs = table.shape[1] // 2
    # The one makes a · cos + b · sin of the first sum, the other does so of the second.
    signs = np.concatenate([table[:, :pairs], -table[:, pairs:]], axis=1), table
    first, second = (np.abs(_rotary((x, each), attributes)[0]) for each in signs)
    return (np.maximum(first, second),)


def _rotary_arguments(site: Site) -> Sequence[Argument]:
    ports = (Address("x"), Address("table"), Address("y"))
    return *ports, site.dims["T"], site.integer("heads"), site.integer("head_dim"), site.dims["P"]


def _rotary_kernel(pairing: str) -> Kernel:
    return Kernel(
        f"rotary.{pairing}",
        _rotary_arguments,
        f"pairing is {pairing}",
        lambda site: site.attributes["pairing"] == pairing,
        rows="T",
    )


def _rotary_cases(rng: np.random.Generator) -> Sequence[Case]:
    cases = []
    for pairing in ("halves", "neighbours"):
        for t, heads, d, p in ((1, 1, 16, 8), (5, 3, 64, 32), (4, 2, 80, 20), (3, 1, 96, 48)):
            x = rng.normal(0, 1, (t, heads * d)).astype(np.float32)
            angles = rng.uniform(0, 7, (t, p))
            table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
            types = (ValueType.of(F32, t, heads * d), ValueType.of(F32, t, 2 * p))
            attributes = {"heads": heads, "head_dim": d, "pairing": pairing}
            cases.append(Case((x, table), types, attributes, f"{pairing} {t}×{heads}×{d}, {p} pairs"))
    return cases


register(
    Operator(
        name="rotary",
        since=1,
        summary="Rotates pairs of each head's elements by the angles of the row's position.",
        formula="(a, b) → (a · cos − b · sin, a · sin + b · cos); elements past 2P are copied",
        inputs=(
            Port("x", (F32,), "T heads*head_dim", "heads side by side"),
            Port("table", (F32,), "T 2*P", "from rotary_table"),
        ),
        outputs=(Port("y", (F32,), "T heads*head_dim", "rotated heads"),),
        attributes=(
            Attribute("heads", int, "heads in a row", low=1),
            Attribute("head_dim", int, "elements of a head", low=2),
            Attribute(
                "pairing", str, "pair i is (i, i + P), or (2i, 2i + 1)", choices=("halves", "neighbours")
            ),
        ),
        relations=(
            Relation(
                "2·P ≤ head_dim",
                lambda dims, attributes: 2 * (dims["P"].constant or 0) <= integer(attributes, "head_dim"),
                "the table was made for another head size",
            ),
        ),
        reference=_rotary,
        exactness=Exactness("ulp", 2, "one product and one fma", _rotary_terms),
        kernels=(_rotary_kernel("halves"), _rotary_kernel("neighbours")),
        cases=_rotary_cases,
        numerics=("a' = fma(a, cos, −(b · sin)) and b' = fma(a, sin, b · cos).",),
        not_differentiable={"table": "constants of the positions"},
    )
)

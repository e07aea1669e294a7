"""Each operator's cases: what it is tried on, in every way that kernels can be run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.sizes import PAGE
from assay.ops.cache import CACHE_TYPES
from assay.ops.elementwise import ROW
from assay.ops.operator import Array, Operator
from assay.ops.rotary import PAIRINGS
from assay.ops.sample import BORDER, MOST_TOP, PARAMETERS, drawn
from assay.tensor.dtype import F32, I32, QUANTISED, WEIGHT_TYPES, DType
from every_op.case import Case, plain, random_weight


def cases(operator: Operator, seed: int) -> list[Case]:
    """The operator's cases, always the same for a seed. Each operator must have some."""
    rng = np.random.default_rng(seed)
    made: list[Case] = elementwise_cases(operator, rng) if operator.pointwise else CASES[operator.name](rng)
    return made


def elementwise_cases(operator: Operator, rng: np.random.Generator) -> list[Case]:
    made = []
    for shape in ((1,), (3, 7), (2, 300), (33, 64)):
        shapes = [shape[1:] if port is ROW else shape for port in operator.inputs]
        if () in shapes:
            continue
        arrays = [rng.normal(0, 4, each).astype(np.float32) for each in shapes]
        arrays[0].flat[0] = -100.0
        attributes = {operator.constant: 0.3} if operator.constant else {}
        made.append(Case.of(*arrays, name=str(shape), **attributes))
    return made


def adjust(rng: np.random.Generator) -> list[Case]:
    cases = []
    for rows, asking, vocabulary, entries in (
        (1, 1, 1, 3),
        (3, 2, 16, 0),
        (2, 5, 77, 90),
        (4, 4, 1003, 2500),
    ):
        logits = rng.normal(0, 4, (rows, vocabulary)).astype(np.float32)
        logits[rng.random(logits.shape) < 0.05] = -np.inf
        logits[0, vocabulary // 2] = np.nan
        inputs = (
            logits,
            rng.integers(0, rows, asking, dtype=np.int32),
            rng.integers(-(2**31), 2**31, (asking, vocabulary // 32 + 1), dtype=np.int32),
            np.sort(rng.integers(0, entries + 1, asking + 1, dtype=np.int32)),
            rng.integers(0, vocabulary, entries, dtype=np.int32),
            rng.integers(-1, 5, entries, dtype=np.int32),
            rng.choice(np.array([0, -np.inf, -100, 2.5], np.float32), entries),
            rng.choice(np.array([0.5, 1, 1.3, 2], np.float32), (asking, 3)),
        )
        kinds = (F32, I32, I32, I32, I32, I32, F32, F32)
        types = tuple(ValueType.of(kind, *value.shape) for kind, value in zip(kinds, inputs, strict=True))
        cases.append(Case(inputs, types, name=f"{asking} of {rows}×{vocabulary}"))
    return cases


def _attention(
    rng: np.random.Generator,
    dtype: DType,
    lengths: list[int],
    pasts: list[int],
    shape: tuple[int, int, int],
    window: int,
    cap: float = 0.0,
    causal: bool = True,
) -> Case:
    heads, kv_heads, d = shape
    needed = [-(-(past + length) // PAGE) for past, length in zip(pasts, lengths, strict=True)]
    pages = sum(needed) + 2
    order = rng.permutation(pages).astype(np.int32)
    table = np.zeros((len(lengths), max(needed)), np.int32)
    # What no sequence has written may hold anything.
    keys = np.full((pages, kv_heads, d, PAGE), np.nan, dtype.numpy)
    values = np.full((pages, kv_heads, PAGE, d), np.nan, dtype.numpy)
    at = 0
    for sequence, count in enumerate(needed):
        table[sequence, :count] = order[at : at + count]
        at += count
        total = pasts[sequence] + lengths[sequence]
        for token in range(total):
            page = table[sequence, token // PAGE]
            keys[page, :, :, token % PAGE] = rng.normal(0, 1, (kv_heads, d))
            values[page, :, token % PAGE] = rng.normal(0, 1, (kv_heads, d))
    spans = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    q = rng.normal(0, 1, (int(spans[-1]), heads * d)).astype(np.float32)
    kind = f"{heads}/{kv_heads}×{d}, window {window}, cap {cap}, causal {causal}"
    inputs = (q, keys, values, spans, np.array(pasts, np.int32), table)
    attributes = {"heads": heads, "window": window, "cap": cap, "causal": causal}
    scale = float(np.float32(d**-0.5))
    return Case.of(*inputs, name=f"{dtype} {lengths} after {pasts}, {kind}", scale=scale, **attributes)


def attention(rng: np.random.Generator) -> list[Case]:
    return [
        _attention(rng, dtype, *rest)
        for dtype in CACHE_TYPES
        for rest in (
            ([1], [0], (1, 1, 16), 0),
            ([5, 1, 20], [0, 63, 60], (3, 1, 64), 0),
            ([1, 33, 1], [640, 511, 100], (4, 2, 32), 0),
            ([70, 2], [3, 600], (6, 2, 64), 100),
            ([9, 130], [1100, 0], (2, 2, 80), 48),
            ([1, 40], [70, 0], (2, 1, 32), 0, 5.0),
            ([3, 90, 1], [0, 0, 600], (4, 4, 32), 0, 0.0, False),
        )
    ]


def cache_write(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype in CACHE_TYPES:
        for t, pages, h, d in ((1, 1, 1, 16), (70, 3, 2, 64), (5, 4, 3, 80)):
            k, v = (rng.normal(0, 2, (t, h * d)).astype(np.float32) for _ in range(2))
            slots = rng.permutation(pages * PAGE)[:t].astype(np.int32)
            keys = rng.normal(0, 1, (pages, h, d, PAGE)).astype(dtype.numpy)
            values = rng.normal(0, 1, (pages, h, PAGE, d)).astype(dtype.numpy)
            name = f"{dtype} {t} of {pages} pages, {h}×{d}"
            cases.append(Case.of(k, v, slots, keys, values, name=name))
    return cases


def embedding(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype in WEIGHT_TYPES:
        for tokens, rows, blocks in ((1, 32, 1), (7, 70, 3)):
            k = 32 * blocks if dtype.block == 1 else dtype.block * blocks
            table = random_weight(rng, dtype, rows, k)
            numbers = rng.integers(0, rows, tokens, dtype=np.int32)
            types = (*plain(numbers), ValueType.of(dtype, rows, k))
            cases.append(Case((numbers, table), types, name=f"{dtype} {tokens} of {rows}×{k}"))
    return cases


SHAPES = ((1, 32, 32), (1, 288, 96), (5, 64, 70), (13, 576, 64), (200, 320, 33))
"""(T, K, N): one row and many, K over a block of 256 and not a multiple of it, N cut inside a panel."""


def shapes(dtype: DType) -> Sequence[tuple[int, int, int]]:
    """The same in whole blocks of the type."""
    return tuple((t, -(-k // dtype.block) * dtype.block, n) for t, k, n in SHAPES)


def linear(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype in WEIGHT_TYPES:
        for t, k, n in shapes(dtype):
            x = rng.normal(0, 1, (t, k)).astype(np.float32)
            types = (*plain(x), ValueType.of(dtype, n, k))
            cases.append(Case((x, random_weight(rng, dtype, n, k)), types, name=f"{dtype} {t}×{k}×{n}"))
    return cases


def linear_quantized(rng: np.random.Generator) -> list[Case]:
    cases = []
    for dtype in QUANTISED:
        for t, k, n in shapes(dtype):
            q = rng.integers(-127, 128, (t, k)).astype(np.int8)
            scale = rng.uniform(0.001, 0.1, (t, k // 32)).astype(np.float32)
            total = q.reshape(t, -1, 32).sum(-1).astype(np.int32)
            types = (*plain(q, scale, total), ValueType.of(dtype, n, k))
            inputs = (q, scale, total, random_weight(rng, dtype, n, k))
            cases.append(Case(inputs, types, name=f"{dtype} {t}×{k}×{n}"))
    return cases


def lora(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, k, n, r in ((1, 32, 33, 4), (5, 288, 70, 17), (9, 600, 40, 8), (2, 64, 16, 300)):
        base, x = (rng.normal(0, 1, (t, size)).astype(np.float32) for size in (n, k))
        a, b = (rng.normal(0, 0.5, shape).astype(np.float32) for shape in ((3, k, r), (3, r, n)))
        adapter = (np.arange(t, dtype=np.int32) + 3) % 4 - 1
        cases.append(Case.of(base, x, adapter, a, b, name=f"{t}×{k}×{n}, rank {r}"))
    return cases


def rms_norm(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, n in ((1, 1), (3, 16), (2, 21), (17, 576)):
        x = rng.normal(0, 3, (t, n)).astype(np.float32)
        x[0] *= np.float32(1e-12)
        w = rng.normal(1, 0.3, n).astype(np.float32)
        cases.append(Case.of(x, w, name=f"{t}×{n}", epsilon=1e-5))
    x, w = rng.normal(0, 3, (5, 96)).astype(np.float32), rng.normal(1, 0.3, 32).astype(np.float32)
    return [*cases, Case.of(x, w, name="5×3×32", epsilon=1e-6, groups=3)]


def layer_norm(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, n in ((1, 1), (3, 16), (2, 21), (17, 576)):
        x = rng.normal(1, 3, (t, n)).astype(np.float32)
        w, b = (rng.normal(1, 0.3, n).astype(np.float32) for _ in range(2))
        cases.append(Case.of(x, w, b, name=f"{t}×{n}", epsilon=1e-5))
    return cases


def quantize(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, k in ((1, 32), (3, 576), (40, 96)):
        x = (rng.normal(0, 1, (t, k)) * 10.0 ** rng.integers(-40, 38, (t, 1))).astype(np.float32)
        x[0, :32] = 0.0
        x[-1, -1] = -0.0
        cases.append(Case.of(x, name=f"{t}×{k}"))
    ties = (np.arange(64, dtype=np.float32) - 32 + np.float32(0.5)).reshape(1, 64)
    ties[0, 0], ties[0, 63] = 127.0, -127.0
    cases.append(Case.of(ties, name="ties"))
    return cases


def rotary_table(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, p in ((1, 1), (5, 32), (9, 40)):
        positions = rng.integers(0, 131072, t, dtype=np.int32)
        positions[0] = 0
        frequencies = (10000.0 ** (-np.arange(p) / p)).astype(np.float32)
        cases.append(Case.of(positions, frequencies, name=f"{t}×{p}"))
    return cases


def rotary(rng: np.random.Generator) -> list[Case]:
    cases = []
    for pairing in PAIRINGS:
        for t, heads, d, p in ((1, 1, 16, 8), (5, 3, 64, 32), (4, 2, 80, 20), (3, 1, 96, 48)):
            x = rng.normal(0, 1, (t, heads * d)).astype(np.float32)
            angles = rng.uniform(0, 7, (t, p))
            table = np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
            name = f"{pairing} {t}×{heads}×{d}, {p} pairs"
            cases.append(Case.of(x, table, name=name, heads=heads, head_dim=d, pairing=pairing))
    return cases


SETTINGS = np.array(
    [
        (0, 0, 0, 1, 1), (1, 0, 0, 1, 1), (1.5, 0, 0, 1, 1), (0.7, 5, 0, 1, 1), (1, 0, 0.1, 1, 1),
        (1.5, 0, 0, 0.7, 1), (1, 0, 0, 1, 0.9), (0.8, 40, 0.01, 0.9, 0.95), (1, 10**6, 0, 1, 1),
    ]
)  # fmt: skip
"""temperature, top_k, min_p, typical_p and top_p of rows to be tested."""


def _sample(rng: np.random.Generator, name: str, logits: Array, settings: Array) -> Case:
    """Rows with these settings and random draws that are farther than BORDER from every border."""
    rows, vocabulary = logits.shape
    adjusted = rng.permutation(logits.reshape(-1)).reshape(rows, vocabulary)[: rows // 2]
    values = (
        rng.integers(-1, len(adjusted), rows), *settings.T, rng.integers(-(2**63), 2**63, rows),
        rng.integers(0, 8, rows), rng.integers(0, 2**20, rows), rng.choice([0, 3, MOST_TOP], rows),
    )  # fmt: skip
    columns = [value.astype(kind.numpy) for value, kind in zip(values, PARAMETERS.values(), strict=True)]
    inputs = (logits, adjusted, *columns)
    for row in range(rows):
        while drawn(inputs, row)[1] <= BORDER:
            inputs[8][row] += 1  # another seed, and for typical other distances
            inputs[3][row] *= np.float32(1.001)
    kinds = (F32, F32, *PARAMETERS.values())
    types = tuple(ValueType.of(kind, *value.shape) for kind, value in zip(kinds, inputs, strict=True))
    return Case(inputs, types, name=f"{name}, {rows}×{vocabulary}")


def sample(rng: np.random.Generator) -> list[Case]:
    cases = [_sample(rng, "one", np.ones((1, 1), np.float32), SETTINGS[7:8])]
    for vocabulary in (1, 16, 100, 1003):
        logits = rng.normal(0, 4, (len(SETTINGS), vocabulary)).astype(np.float32)
        cases.append(_sample(rng, "settings", logits, SETTINGS))
    edges = rng.normal(0, 1, (4, 40)).astype(np.float32)
    edges[0, 7], edges[1, [3, 20]], edges[2, ::2], edges[3] = np.nan, np.inf, -np.inf, -np.inf
    ties = rng.integers(-2, 3, (4, 40)).astype(np.float32)
    for setting in (0, 1, 3):
        settings = SETTINGS[[setting] * 4]
        cases.append(_sample(rng, f"NaN and infinities, setting {setting}", edges, settings))
        cases.append(_sample(rng, f"ties, setting {setting}", ties, settings))
    return cases


def gather_rows(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, r, n in ((1, 1, 1), (5, 3, 17), (4, 9, 64), (70, 33, 100)):
        x = rng.normal(0, 1, (t, n)).astype(np.float32)
        rows = rng.integers(0, t, r, dtype=np.int32)
        if r > 3:
            rows[:3] = -1, t, 2**31 - 1
        cases.append(Case.of(x, rows, name=f"{r} of {t}×{n}"))
    return cases


def segment_mean(rng: np.random.Generator) -> list[Case]:
    cases = []
    for t, n, runs in (
        (1, 1, [(0, 1)]),
        (40, 17, [(0, 40), (3, 4), (39, 40), (5, 22)]),
        (100, 64, [(0, 33), (33, 100), (-1, 5), (99, 101), (7, 7), (8, 2), (2**31 - 1, 0)]),
    ):
        x = rng.normal(0, 1, (t, n)).astype(np.float32)
        cases.append(Case.of(x, *np.array(runs, np.int32).T.copy(), name=f"{len(runs)} of {t}×{n}"))
    return cases


CASES = {
    made.__name__: made
    for made in (
        adjust,
        attention,
        cache_write,
        embedding,
        linear,
        linear_quantized,
        lora,
        rms_norm,
        layer_norm,
        quantize,
        rotary_table,
        rotary,
        sample,
        gather_rows,
        segment_mean,
    )
}

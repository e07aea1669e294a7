"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from assay.graph.graph import ValueType
from assay.kernels.conv_sizes import matmul_scratch
from assay.kernels.panels import EDGE, packed_bytes
from assay.ops import chain
from assay.ops.operator import Address, Exactness
from assay.ops.standard.definition import FLAG
from assay.ops.standard.emit import Emitter, bits_of, whole
from assay.ops.standard.registry import define
from assay.ops.standard.site import Made, Numbers, Site
from assay.tensor.dtype import BF16, F16, F32, DType

PRODUCT = Exactness(
    "ulp",
    "K / 128 + 257",
    "at most 256 roundings in a block of 256, each of 2⁻²⁴ of its terms, and one for each block; the rest is "
    "for what roundings do to each other",
)
ORDER = (
    "K is summed by fma in ascending order inside blocks of 256, from zero; the blocks are added in order."
)


def product_kind(dtype: DType) -> str:
    """The kernel of products in an element type: halves go by way of float32, integers wrap."""
    if dtype in (F16, BF16, F32):
        return "float32"
    return {"float64": "float64"}.get(dtype.name, f"int{8 * dtype.size}")


def _matmul(site: Site) -> Sequence[Made]:
    a, b = site.shape(0), site.shape(1)
    for index in (0, 1):
        site.want_rank(index, 1, -1)
    if site.problems:
        return [None]
    left = a if len(a) > 1 else (*a[:0], *a)
    rows, columns = left[:-1][-1:], b[-1:] if len(b) > 1 else ()
    inner = b[-2] if len(b) > 1 else b[0]
    site.agree(a[-1], inner, "inner dimensions", 1, "the last axis of A is summed with the last but one of B")
    batch = site.broadcast(a[:-2], b[:-2])
    return [(*batch, *rows, *columns)]


def product(
    emitter: Emitter,
    dtype: DType,
    a: Address,
    b: Address,
    y: Address,
    sizes: tuple[int, int, int],
    strides: tuple[int, int, int],
    batch: Sequence[tuple[int, int, int]] = (),
    fixed: bool = False,
) -> None:
    """y[batch, M, N] = a · b of sizes M, K, N; strides in elements of a's rows, b's K and b's N; for each
    dimension of the batch its size and the strides of a and b. A `fixed` b is put into panels once.
    """
    m, k, n = sizes
    kind = product_kind(dtype)
    size = 8 if kind.endswith("64") else 4
    if fixed and kind == "float32" and not batch and strides[0] == k and k:
        panels = emitter.temporary(packed_bytes("float32", 4, n, k))
        emitter.call("matmul.pack", [b, panels, k, n, *strides[1:]], writes=[panels])
        words = [a, panels, y, m, k, n, "scratch"]
        emitter.call("gemm.float32", words, writes=[y], scratch=EDGE)
        return
    words = [a, b, y, "scratch", m, k, n, *strides, len(batch), *(word for each in batch for word in each)]
    emitter.call(f"matmul.{kind}", words, writes=[y], scratch=matmul_scratch(size))


def _stride(sizes: Sequence[int], axis: int) -> int:
    """Of a leading axis, counted from the end, in elements; 0 where it is missing or repeated."""
    at = axis + len(sizes)
    return 0 if at < 0 or sizes[at] == 1 else prod(sizes[at + 1 :])


def _lower_matmul(site: Site, emitter: Emitter) -> None:
    a, b = site.sizes(0), site.sizes(1)
    dtype = whole(site.dtype(0))
    x, w, y = emitter.floats(0), emitter.floats(1), emitter.narrowed(dtype)
    k, m, n = a[-1], a[-2] if len(a) > 1 else 1, b[-1] if len(b) > 1 else 1
    lead = np.broadcast_shapes(a[:-2], b[:-2])
    batch = [
        (size, _stride(a, axis - len(lead) - 2), _stride(b, axis - len(lead) - 2))
        for axis, size in enumerate(lead)
    ]
    if len(b) <= 2 and all(size == 1 or stride for size, stride, _ in batch):
        m, batch = m * prod(lead), []
    product(emitter, dtype, x, w, y, (m, k, n), (k, n, 1), batch, emitter.constant(1))


define(
    "MatMul", _matmul,
    formula="Y[…, m, n] = Σ_k A[…, m, k] · B[…, k, n]",
    shapes="Leading dimensions are broadcast; a vector A is one row, a vector B one column.",
    reference=np.matmul, lower=_lower_matmul, exactness=PRODUCT, numerics=(ORDER,),
    kernels=(("gemm.float32", "B is a constant matrix, and is put into panels once"),
    ("matmul.<type>", "always")),
)  # fmt: skip


def _gemm(site: Site) -> Sequence[Made]:
    if not (site.want_rank(0, 2) & site.want_rank(1, 2)):
        return [None]
    a, b = site.shape(0), site.shape(1)
    m, k = a[::-1] if site["transA"] else a
    k2, n = b[::-1] if site["transB"] else b
    site.agree(k, k2, "inner dimensions", 1, "transA and transB say which axes are summed")
    if site.has(2):
        c = site.shape(2)
        site.stretches(2, c, (m, n), "C doesn't fit the product")
        site.require(
            len(c) <= 2, "C doesn't fit the product", want="2 dimensions or fewer", got=site.type(2), input=2
        )
    return [(m, n)]


def _gemm_reference(
    A: Numbers, B: Numbers, C: Numbers | None, alpha: float, beta: float, transA: int, transB: int
) -> Numbers:
    y = (A.T if transA else A) @ (B.T if transB else B) * A.dtype.type(alpha)
    return np.asarray(y if C is None else y + C * A.dtype.type(beta), A.dtype)


def _lower_gemm(site: Site, emitter: Emitter) -> None:
    dtype, out = site.dtype(0), site.made_type()
    (m, n), a = site.out(), site.sizes(0)
    k = a[0] if site["transA"] else a[1]
    x = emitter.floats(0)
    size = 8 if product_kind(dtype).endswith("64") else 4
    if site["transA"]:
        turned = emitter.temporary(size * m * k)
        strides = chain.strides(size, (k, m))
        source = chain.Operand(x.name, size, chain.view(size, (m, k), strides[::-1]))
        emitter.copy(source, chain.Operand(turned.name, size), m * k)
        x = turned
    alpha, beta = site.number("alpha"), site.number("beta")
    added = site.has(2) and beta != 0
    wide_type = ValueType(whole(dtype), out.shape)
    halves = wide_type != out
    direct = alpha == 1 and not added and not halves
    y = emitter.output() if direct else emitter.temporary(size * m * n)
    strides_b = (1, k) if site["transB"] else (n, 1)
    product(emitter, dtype, x, emitter.floats(1), y, (m, k, n), (k, *strides_b), (), emitter.constant(1))
    if direct:
        return
    links: list[chain.Link] = []
    last = y.name

    def link(stem: str, reads: list[tuple[str, ValueType]], numbers: Sequence[float] = ()) -> str:
        made = f"{emitter.output().name}~{stem}{len(links)}"
        words = [bits_of(number, wide_type.dtype) for number in numbers]
        links.append(chain.pointwise(stem, reads, (made, wide_type), words))
        return made

    if alpha != 1:
        last = link("mul", [(last, wide_type)], [alpha])
    if added:
        third = emitter.floats(2).name
        kind = ValueType(wide_type.dtype, site.shape(2))
        if beta != 1:
            scaled = emitter.temporary(kind.nbytes({}))
            words = [bits_of(beta, kind.dtype)]
            emitter.chain(site.sizes(2), chain.pointwise("mul", [(third, kind)], (scaled.name, kind), words))
            third = scaled.name
        last = link("add", [(last, wide_type), (third, kind)])
    if halves:
        links.append(chain.pointwise("cast", [(last, wide_type)], (emitter.output().name, out)))
    else:
        links[-1] = replace(links[-1], makes=replace(links[-1].makes, name=emitter.output().name))
    emitter.chain(site.out(), *links)


define(
    "Gemm", _gemm,
    formula="Y = alpha · A' · B' + beta · C, A' and B' transposed where transA and transB say so",
    shapes="[M, N]; C is broadcast to it.", ranges={"transA": FLAG, "transB": FLAG},
    reference=_gemm_reference, lower=_lower_gemm, exactness=PRODUCT,
    numerics=(ORDER, "Then the product with alpha is rounded, beta · C is rounded, and their sum."),
    kernels=(("gemm.float32", "B is constant, and is put into panels once"), ("matmul.<type>", "always")),
)  # fmt: skip

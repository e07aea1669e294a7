"""Spectra: Fourier transforms as products of matrices, and the windows before them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assay.graph.dim import Dim
from assay.graph.graph import ValueType
from assay.ops.operator import Exactness
from assay.ops.standard.cast import named
from assay.ops.standard.definition import FLAG
from assay.ops.standard.function import Function, Name, written
from assay.ops.standard.linear import ORDER
from assay.ops.standard.registry import define
from assay.ops.standard.site import Array, Made, Numbers, Site
from assay.tensor.dtype import F32, F64
from assay.tensor.narrow import numpy_of

LONGEST = 2048
"""Of transforms by a matrix; longer ones are NumPy's."""

NEAR = Exactness("ulp", 1, "of the greatest output, at least: sums are float64; of float64 N / 128 + 257")


def _scalar(site: Site, index: int, least: int = 1) -> Dim | None:
    """A size in an input, at least so much; None where it isn't known."""
    found = site.dims(index)
    if found is None or not site.require(
        len(found) == 1, "not one number", want="[]", got=site.type(index), input=index
    ):
        return None
    low = found[0].constant is None or found[0].constant >= least
    return (
        found[0]
        if site.require(low, "too small", want=f"{least} or more", got=found[0], input=index)
        else None
    )


def _plan(site: Site) -> tuple[int, Dim] | None:
    """The axis of a transform and its length; None where they aren't known, or wrong."""
    shape, rank = site.shape(0), site.rank(0)
    found = site.ints(2) if site.has(2) else [-2]
    if found is None:
        return None
    good = len(found) == 1 and -rank <= found[0] < rank and found[0] % rank != rank - 1
    want = f"{-rank} to {rank - 2} but −1, for {site.type(0)}"
    if not site.require(good, "axis out of range", want=want, got=found, input=2):
        return None
    axis = found[0] % rank
    if site.has(1):
        length = _scalar(site, 1)
        return None if length is None else (axis, length)
    half = site["inverse"] and site["onesided"]
    return axis, (shape[axis] - 1) * 2 if half else shape[axis]


def _parts(site: Site, wanted: Sequence[int], hint: str) -> None:
    """Hold the last axis: the parts of one number."""
    got = site.shape(0)[-1]
    want, good = " or ".join(map(str, wanted)), got.constant is None or got.constant in wanted
    site.require(good, "last axis isn't a number's parts", want=want, got=got, input=0, hint=hint)


def _dft(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 2, -1):
        return [None]
    shape = list(site.shape(0))
    half, inverse = bool(site["onesided"]), bool(site["inverse"])
    wanted = (2,) if half and inverse else (1,) if half else (1, 2)
    _parts(site, wanted, "1 for real numbers, 2 for complex ones")
    plan = _plan(site)
    if plan is None:
        return [None if site.problems else site.open_shape(len(shape))]
    axis, length = plan
    shape[axis] = length // 2 + 1 if half and not inverse else length
    shape[-1] = Dim.of(1 if half and inverse else 2)
    return [tuple(shape)]


def _turns(f: Function, n: int, rows: int, columns: int, inverse: bool) -> tuple[Name, Name]:
    """cos and sin of ∓2π · row · column / n, in float64."""
    places = f.number(np.outer(np.arange(rows), np.arange(columns)) % n)
    angles = f.number(2 * np.pi / n * np.arange(n) * (1 if inverse else -1), F64)
    cos, sin = (f("Gather", f(op, angles), places, axis=0) for op in ("Cos", "Sin"))
    return cos, sin


def _transform(f: Function) -> Sequence[Name] | None:
    site, plan = f.site, _plan(f.site)
    if plan is None or plan[1].constant is None or plan[1].constant > LONGEST:
        return None
    axis, n, sizes = plan[0], plan[1].constant, site.sizes(0)
    half, inverse, parts = bool(site["onesided"]), bool(site["inverse"]), sizes[-1]
    rows = n // 2 + 1 if half and inverse else n
    columns = n // 2 + 1 if half and not inverse else n
    rest = [each for each in range(len(sizes) - 1) if each != axis]
    x = f.cast(f.moved(f.input(0), [*rest, len(sizes) - 1, axis]), F64)
    given = min(rows, sizes[axis])
    x = f.slice(x, len(sizes) - 1, 0, given)
    cos, sin = _turns(f, n, given, columns, inverse)
    if half and inverse:
        # What isn't given is the conjugate of what is: all count twice but the first, and the middle one.
        twice = np.where((np.arange(given) == 0) | (2 * np.arange(given) == n), 1.0, 2.0)[:, None]
        cos, sin = (f("Mul", each, f.number(twice, F64)) for each in (cos, sin))
        blocks = [[cos], [f("Neg", sin)]]
    else:
        blocks = [[cos, sin], [f("Neg", sin), cos]][:parts]
    table = f("Concat", *(f("Concat", *row, axis=1) for row in blocks), axis=0)
    if inverse:
        table = f("Div", table, f.number(n, F64))
    outer = [sizes[each] for each in rest]
    made = len(blocks[0])
    y = f("MatMul", f.reshape(x, *outer, parts * given), table)
    y = f.reshape(y, *outer, made, columns)
    back = [*range(axis), len(sizes) - 1, *range(axis, len(rest)), len(sizes) - 2]
    return [f.cast(f.moved(y, back), site.dtype(0))]


def _numpy_dft(
    input: Numbers, dft_length: Array | None, axis: Array | None, *, inverse: int, onesided: int
) -> Numbers:
    at = -2 if axis is None else int(axis.reshape(-1)[0])
    at = at % input.ndim
    x = input[..., 0] + (1j * input[..., 1] if input.shape[-1] == 2 else 0)
    half = bool(onesided and inverse)
    default = 2 * (input.shape[at] - 1) if half else input.shape[at]
    n = default if dft_length is None else int(dft_length.reshape(-1)[0])
    if half:
        return np.fft.irfft(x, n, at)[..., None].astype(input.dtype)
    found = np.fft.ifft(x, n, at) if inverse else np.fft.fft(x, n, at)
    found = np.take(found, np.arange(n // 2 + 1), at) if onesided else found
    return np.stack([found.real, found.imag], -1).astype(input.dtype)


define(
    "DFT", _dft, function=written(_transform), reference=_numpy_dft, exactness=NEAR,
    formula="output[k] = Σ_n input[n] · e^(−2πi · kn / N) along axis; inverse: e^(+…) and 1 / N",
    shapes="input's, with dft_length along axis (⌊dft_length / 2⌋ + 1 where onesided), 2 in the last axis; "
    "onesided "
    "and inverse, dft_length and 1.",
    ranges={"inverse": FLAG, "onesided": FLAG}, numerics=("In float64, rounded once to the element type.",
    ORDER),
    kernels=(("matmul.float64, with a matrix of our own cos and sin", f"N is at most {LONGEST}"),
             ("none: NumPy's transform", "longer ones")),
)  # fmt: skip


def _frames(site: Site) -> tuple[Dim, Dim] | None:
    """The step from frame to frame, and a frame's length."""
    step = _scalar(site, 1)
    length = site.shape(2)[0] if site.has(2) else site.shape(0)[1]
    if site.has(3):
        found = _scalar(site, 3)
        if found is None:
            return None
        length = site.agree(found, length, "frame_length and window", 3) if site.has(2) else found
    return None if step is None else (step, length)


def _stft(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 3) or (site.has(2) and not site.want_rank(2, 1)):
        return [None]
    batch, whole, _ = site.shape(0)
    wanted = (1,) if site["onesided"] else (1, 2)
    _parts(site, wanted, "onesided is for real numbers")
    found = _frames(site)
    if found is None:
        return [(batch, site.unknown("frames"), site.unknown("bins"), Dim.of(2))]
    step, length = found
    site.fits(0, length, whole, "a frame longer than the signal")
    return [(batch, (whole - length) // step + 1, length // 2 + 1 if site["onesided"] else length, Dim.of(2))]


def _framed(f: Function) -> Sequence[Name] | None:
    found = _frames(f.site)
    if found is None or found[0].constant is None or found[1].constant is None:
        return None
    step, length = found[0].constant, found[1].constant
    count = (f.site.sizes(0)[1] - length) // step + 1
    frames = f("Gather", f.input(0), f.number(step * np.arange(count)[:, None] + np.arange(length)), axis=1)
    if f.site.has(2):
        frames = f("Mul", frames, f.reshape(f.input(2), length, 1))
    return [f("DFT", frames, "", f.number(2), onesided=f.site.integer("onesided"))]


define(
    "STFT", _stft, function=written(_framed), exactness=NEAR,
    formula="output[b, t] = DFT(signal[b, t · frame_step … + frame_length] · window)",
    shapes="[batch, ⌊(signal_length − frame_length) / frame_step⌋ + 1, frame_length or its half and 1, 2]",
    ranges={"onesided": FLAG}, kernels=(("index.gather, elementwise.chain and DFT's", "always"),),
)  # fmt: skip


def _window(site: Site) -> Sequence[Made]:
    dtype = named(site, "output_datatype", F32)
    size = _scalar(site, 0)
    return [ValueType(dtype, (site.unknown("size") if size is None else size,))]


for _op, _formula in (
    ("HannWindow", "0.5 − 0.5 cos 2πn / N"), ("HammingWindow", "25/46 − 21/46 cos 2πn / N"),
    ("BlackmanWindow", "0.42 − 0.5 cos 2πn / N + 0.08 cos 4πn / N"),
):  # fmt: skip
    define(
        _op, _window, expand=True, formula=f"output[n] = {_formula}, N the size, or without periodic one "
        f"less",
        shapes="[size]", ranges={"periodic": FLAG}, kernels=(("elementwise.chain",
        "where the size is known ahead"),),
        exactness=Exactness("ulp", 64, "of 1: the angle is rounded to float32"),
    )  # fmt: skip


def _mel(site: Site) -> Sequence[Made]:
    dtype, bins, length = named(site, "output_datatype", F32), _scalar(site, 0), _scalar(site, 1)
    edges = [site.peek(index) for index in (3, 4)]
    if edges[0] is not None and edges[1] is not None:
        good = bool(0 <= edges[0].reshape(-1)[0] < edges[1].reshape(-1)[0])
        site.require(
            good, "edges in no order", want="0 ≤ lower_edge_hertz < upper_edge_hertz", got=edges, input=3
        )
    if bins is None or length is None:
        return [ValueType(dtype, (site.unknown("bins"), site.unknown("bands")))]
    return [ValueType(dtype, (length // 2 + 1, bins))]


def _numpy_mel(*numbers: Array, site: Site, output_datatype: int) -> Array:
    bands, length, rate, low, high = (float(each.reshape(-1)[0]) for each in numbers)
    first, last = (2595 * np.log10(1 + each / 700) for each in (low, high))
    mels = first + (last - first) / (bands + 2) * np.arange(bands + 2)
    edges = np.floor((length + 1) * 700 * (10 ** (mels / 2595) - 1) / rate)
    k, (left, peak, right) = (
        np.arange(length // 2 + 1)[:, None],
        (edges[at : at + int(bands)] for at in range(3)),
    )
    rise = (k >= left) * (k - left) / np.maximum(peak - left, 1)
    fall = (k < right) * (right - k) / np.maximum(right - peak, 1)
    kind = numpy_of(site.made_type().dtype)
    return np.where(k == peak, 1, np.where(k < peak, rise, fall)).astype(kind)


define(
    "MelWeightMatrix", _mel, reference=_numpy_mel, informed=True,
    formula="output[k, m] = the height at k of the triangle from edge m up to 1 at m + 1 and down to m + 2; "
    "edges are ⌊(dft_length + 1) · f / sample_rate⌋, evenly spaced in mel(f) = 2595 log10(1 + f / 700)",
    shapes="[⌊dft_length / 2⌋ + 1, num_mel_bins]",
    exactness=Exactness("ulp", 1, "edges are whole numbers; NumPy's logarithm decides near ones"),
)  # fmt: skip


def _det(site: Site) -> Sequence[Made]:
    if not site.want_rank(0, 2, -1):
        return [None]
    shape = site.shape(0)
    site.agree(shape[-2], shape[-1], "rows and columns", 0)
    return [shape[:-2]]


define(
    "Det", _det, formula="Y = det X, of each of the last two axes' matrices",
    shapes="X's without the last two.",
    reference=lambda X: np.asarray(np.linalg.det(X.astype(np.float64))).astype(X.dtype),
    exactness=Exactness("ulp", "M³", "of the product of rows' lengths: NumPy's elimination in float64"),
)  # fmt: skip

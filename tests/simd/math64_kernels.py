"""Kernels that apply a function of simd.math64, trig or rounding, named by its number, to arrays.

`lanes` takes 16 float64 at a time, `scalars` one, `singles` 16 float32; `pairs` and `single_pairs` take two
operands.
"""

from __future__ import annotations

from functools import reduce

from assay.simd import math64, mathf, rounding, trig
from assay.simd.device import device
from assay.simd.memory import get_f64, load, load_f64, put_f64, store, store_f64, words

LANES = {
    math64: "exp expm1 log log1p sinh cosh tanh asinh acosh atanh sigmoid softplus erf",
    trig: "sin cos tan asin acos atan",
    rounding: "nearest floor ceil",
}
OF_ONE = {name: getattr(module, name) for module, names in LANES.items() for name in names.split()}
OF_TWO = {"power": math64.power, "fmod": rounding.fmod, "modulo": rounding.modulo}
OF_SCALARS = {"log": math64.log, "sin": trig.sin}
OF_SINGLES = {"log": mathf.single(math64.log)}
OF_SINGLE_PAIRS = {"fmod": mathf.single(rounding.fmod, operands=2)}


def _any_of(functions):
    """The one function that takes a number first, and is the function with that number on the rest."""

    def before(rest, numbered):
        index, function = numbered

        @device
        def choose(number, *x):
            if number == index:
                return function(*x)
            return rest(number, *x)

        return choose

    @device
    def last(number, *x):
        return x[0]

    return reduce(before, enumerate(functions.values()), last)


def _each(functions, step, width, get, put):
    function = _any_of(functions)

    def kernel(args, tid, nthreads):
        number, x, y, n = words(args, 4)
        for i in range(0, n, step):
            put(y + width * i, function(number, get(x + width * i)))

    return kernel


def _each_pair(functions, width, get, put):
    function = _any_of(functions)

    def kernel(args, tid, nthreads):
        number, x, z, y, n = words(args, 5)
        for i in range(0, n, 16):
            put(y + width * i, function(number, get(x + width * i), get(z + width * i)))

    return kernel


lanes = _each(OF_ONE, 16, 8, load_f64, store_f64)
scalars = _each(OF_SCALARS, 1, 8, get_f64, put_f64)
singles = _each(OF_SINGLES, 16, 4, load, store)
pairs = _each_pair(OF_TWO, 8, load_f64, store_f64)
single_pairs = _each_pair(OF_SINGLE_PAIRS, 4, load, store)

TABLES = {
    "lanes": OF_ONE,
    "scalars": OF_SCALARS,
    "singles": OF_SINGLES,
    "pairs": OF_TWO,
    "single_pairs": OF_SINGLE_PAIRS,
}

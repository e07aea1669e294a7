"""Choice of tokens, numerics rule 16: temperature, top-k, min-p, typical, top-p, then one seeded draw.

Weights are integers (simd.fixed), so sums of them are exact and every order of adding gives the cumulative
sums in candidate order: nothing is ever sorted. All choices but min-p are one question: which is the first
candidate, by (logit descending, id ascending), at which the cumulative count or weight reaches a limit?
(Typical asks it of the negative distances from the mean.) `reach` answers it by collecting bands of logits
below the greatest until the limit lies in one, then by radix selection over that band's bits. A candidate
that was cut off has weight 0.
"""

from __future__ import annotations

import numpy as np

from assay.kernels.share import first_row
from assay.kernels.sizes import MOST_TOP
from assay.simd.device import device
from assay.simd.fixed import FRACTION_BITS, add_fixed, fixed, lane_bits, no_fixed, sum_fixed
from assay.simd.math64 import log
from assay.simd.mathf import LN2, exp, f32_bits, highest_bit, lowest_bit, magnitude, multiply
from assay.simd.memory import get_f32, get_i32, get_i64, load_row, put_f32, put_i32, put_i64, store, words
from assay.simd.vector import any_lane, lane_numbers, select, splat, splat_i32, tree_max

NAN = np.float32(np.nan)
INFINITY = np.float32(np.inf)
ZERO = np.float32(0.0)
ONE = np.float32(1.0)
TWO = np.float32(2.0)
NARROW = np.float32(4.0)
"""The first band's width, in temperatures: often enough for the limit to lie in it."""
WIDE = np.float32(32.0)
"""The widest band: logits this far below the greatest have no weight; the next takes all that is left."""
WORD = 0xFFFFFFFF
LEAST = -(2**63)
TABLE = 256 * 16
"""Bytes of the table of one digit: an int64 count and an int64 weight for each of its values."""


def sample(args, tid, nthreads):
    """logits[R, V], adjusted[A, V], then source, temperature, top_k, min_p, typical_p, top_p, seed, choice,
    position, top_n, all [R] → tokens[R], logprob[R], top_tokens[R, 20], top_logprobs[R, 20].

    Words: these 16 addresses in order, R, V, the scratch of thread 0, its bytes for each thread, which hold a
    table, V entries of candidates, and in whole vectors V weights and V distances.
    """
    (
        logits, changed, sources, temperatures, top_ks, min_ps, typical_ps, top_ps, seeds, choices, positions,
        top_ns, tokens, logprobs, top_tokens, top_logprobs, rows, n, space, stride,
    ) = words(args, 20)  # fmt: skip
    space += tid * stride
    for r in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
        x, source, top_n = logits + 4 * r * n, get_i32(sources + 4 * r), get_i32(top_ns + 4 * r)
        y = x if source < 0 else changed + 4 * source * n
        temperature, top_k = get_f32(temperatures + 4 * r), get_i32(top_ks + 4 * r)
        min_p, typical_p = get_f32(min_ps + 4 * r), get_f32(typical_ps + 4 * r)
        top_p = get_f32(top_ps + 4 * r)
        first = greatest = maximum(x, n)
        if source >= 0:
            greatest = maximum(y, n)
        fit = ZERO <= temperature < INFINITY and 0 <= top_n <= MOST_TOP and first == first
        fit = fit and top_k >= 0 and ZERO <= min_p <= ONE and typical_p >= ZERO and top_p >= ZERO
        token, logprob, total = -1, NAN, 0
        if fit and greatest == greatest:
            total = weigh(x, n, first, ONE, space)
            if temperature == ZERO:
                token = index_of(y, n, greatest)
            else:
                if source >= 0 or temperature != ONE:
                    mass = weigh(y, n, greatest, ONE / temperature, space)
                else:
                    mass = total
                mass = cut(y, n, greatest, temperature, mass, top_k, min_p, typical_p, top_p, space)
                random = philox(get_i64(seeds + 8 * r), get_i32(positions + 4 * r), get_i32(choices + 4 * r))
                drawn, _ = multiply(random, mass)
                token, _ = reach(y, n, greatest, temperature, False, drawn + 1, space)
            logprob = log_probability(get_f32(x + 4 * token), first, total)
        put_i32(tokens + 4 * r, token)
        put_f32(logprobs + 4 * r, logprob)
        wanted = top_n if token >= 0 else 0
        likeliest(x, n, wanted, first, total, top_tokens + 80 * r, top_logprobs + 80 * r, space)


@device
def cut(x, n, greatest, temperature, mass, top_k, min_p, typical_p, top_p, space):
    """Cut candidates off; the weight of the rest, in candidate order up to the last one that is left."""
    weights = space + TABLE + 8 * n
    if 0 < top_k < n:
        last, _ = reach(x, n, greatest, temperature, True, top_k, space)
        mass = drop(x, get_f32(x + 4 * last), last, weights, n)
    if min_p > ZERO:
        mass = drop(weights, min_p, n, weights, n)
    if typical_p < ONE:
        distances = weights + 64 * ((n + 15) // 16)
        nearest = measure(x, n, greatest, ONE / temperature, mass, weights, distances)
        last, _ = reach(distances, n, nearest, ONE, False, share(mass, typical_p), space)
        mass = drop(distances, get_f32(distances + 4 * last), n, weights, n)
    if top_p < ONE:
        _, mass = reach(x, n, greatest, temperature, False, share(mass, top_p), space)
    return mass


@device
def drop(values, bound, last, weights, n):
    """Cut off whoever's value is below `bound`, or equal to it and behind candidate `last`; the weight of the
    rest.
    """
    sums, low = no_fixed(), splat(bound)
    for i in range(0, n, 16):
        v = load_row(values, i, n, NAN)
        before = lane_numbers() <= splat_i32(last - i)
        w = select((v > low) | ((v == low) & before), load_row(weights, i, n), splat(0.0))
        store(weights + 4 * i, w)
        sums = add_fixed(sums, w)
    return sum_fixed(sums)


@device
def measure(x, n, greatest, inverse, mass, weights, distances):
    """Store −|z − mean|, −∞ for whoever is cut off; the greatest of them. The mean is over the weights: of
    the logarithms of probabilities it differs by a constant, so this is the distance from the entropy.
    """
    sums, zero = no_fixed(), splat(0.0)
    for i in range(0, n, 16):
        below = load_row(weights, i, n) * (zero - scaled(load_row(x, i, n, NAN), greatest, inverse))
        sums = add_fixed(sums, select(below == below, below, zero))
    mean = np.float32(float(sum_fixed(sums)) / float(mass))
    for i in range(0, n, 16):
        distance = magnitude(scaled(load_row(x, i, n, NAN), greatest, inverse) + splat(mean))
        kept = load_row(weights, i, n) > zero
        store(distances + 4 * i, select(kept, zero - distance, splat(-INFINITY)))
    return maximum(distances, n)


@device
def maximum(x, n):
    """The greatest of n floats, or NaN where one is NaN."""
    top = splat(-INFINITY)
    strange = top != top
    for i in range(0, n, 16):
        v = load_row(x, i, n, -INFINITY)
        strange = strange | (v != v)
        top = select(v > top, v, top)
    return NAN if any_lane(strange) else tree_max(top)


@device
def index_of(x, n, value):
    """The lowest index at which `value` stands; it does."""
    i = 0
    while not any_lane(load_row(x, i, n, NAN) == splat(value)):
        i += 16
    while get_f32(x + 4 * i) != value:
        i += 1
    return i


@device
def scaled(v, greatest, inverse):
    """z = (v − greatest) · inverse; 0 for the greatest even if infinite."""
    top = splat(greatest)
    return select(v == top, splat(0.0), (v - top) * splat(inverse))


@device
def weigh(x, n, greatest, inverse, space):
    """Store exp(z) as the weights in a thread's scratch; their sum as integers."""
    sums, weights = no_fixed(), space + TABLE + 8 * n
    for i in range(0, n, 16):
        w = exp(scaled(load_row(x, i, n, NAN), greatest, inverse))
        w = select(w == w, w, splat(0.0))
        store(weights + 4 * i, w)
        sums = add_fixed(sums, w)
    return sum_fixed(sums)


@device
def log_probability(logit, greatest, total):
    """ln of the token's share of `total`, the row's weight at temperature 1."""
    distance = 0.0
    if logit != greatest:
        distance = float(logit) - float(greatest)
    return np.float32(distance - (log(float(total)) - FRACTION_BITS * LN2))


@device
def likeliest(x, n, wanted, greatest, total, tokens, logprobs, space):
    """The first `wanted` candidates and their log-probabilities; −1 and NaN behind them."""
    wanted, listed, before = min(wanted, n), 0, LEAST
    if wanted:
        last, _ = reach(x, n, greatest, ONE, True, wanted, space)
        listed = collect(x, n, get_f32(x + 4 * last), NAN, space + TABLE)
    for k in range(MOST_TOP):
        token, logprob = -1, NAN
        if k < wanted:
            entry = ~LEAST
            for i in range(listed):  # the first one behind the one before
                other = get_i64(space + TABLE + 8 * i) ^ LEAST  # in the order of signed words
                entry = other if before < other < entry else entry
            before, token = entry, entry & WORD
            logprob = log_probability(get_f32(x + 4 * token), greatest, total)
        put_i32(tokens + 4 * k, token)
        put_f32(logprobs + 4 * k, logprob)


@device
def philox(seed, position, choice):
    """64 random bits: words 0 (low) and 1 (high) of Philox4x32-10.

    Its key is the seed (low word, high word), its counter (position, choice, 0, 0).
    """
    k0, k1 = seed & WORD, (seed >> 32) & WORD
    c0, c1, c2, c3 = position & WORD, choice & WORD, 0, 0
    for _ in range(10):
        (_, a), (_, b) = multiply(c0, 0xD2511F53), multiply(c2, 0xCD9E8D57)
        c0, c1 = ((b >> 32) & WORD) ^ c1 ^ k0, b & WORD
        c2, c3 = ((a >> 32) & WORD) ^ c3 ^ k1, a & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return (c1 << 32) | c0


@device
def share(mass, top_p):
    """top_p · mass rounded up, at least 1; exact for top_p of 2**-29 and more."""
    fraction = int(float(top_p) * 9007199254740992.0) << 11  # top_p · 2**64, an unsigned word
    part, rest = multiply(fraction, mass)
    return max(1, part + 1 if rest else part)


@device
def reach(x, n, greatest, temperature, by_count, limit, space):
    """The first candidate at which the cumulative count (or weight) reaches `limit`; the weight up to it."""
    entries = space + TABLE
    weights = entries + 8 * n
    count, mass = 0, 0
    least, width = NAN, NARROW
    while True:  # bands of logits, downwards from the greatest, until the limit lies in one
        above = least
        least = greatest - width * temperature if width <= WIDE else -INFINITY
        listed = collect(x, n, least, above, entries)
        weight = 0
        for i in range(listed):
            weight += weight_of(weights, get_i64(entries + 8 * i))
        if (count + listed if by_count else mass + weight) >= limit:
            break
        count, mass, width = count + listed, mass + weight, width * TWO
    while True:  # digits of the logits, from the first bits in which those listed differ
        differing = 0
        for i in range(listed):
            differing |= get_i64(entries + 8 * i) ^ get_i64(entries)
        if differing >> 32 == 0:
            break
        shift = max(32, highest_bit(differing) - 7)
        for word in range(TABLE // 8):
            put_i64(space + 8 * word, 0)
        for i in range(listed):
            entry = get_i64(entries + 8 * i)
            slot = space + 16 * ((entry >> shift) & 255)
            put_i64(slot, get_i64(slot) + 1)
            put_i64(slot + 8, get_i64(slot + 8) + weight_of(weights, entry))
        digit = 0
        while True:
            more, heavier = count + get_i64(space + 16 * digit), mass + get_i64(space + 16 * digit + 8)
            if (more if by_count else heavier) >= limit:
                break
            count, mass, digit = more, heavier, digit + 1
        kept = 0
        for i in range(listed):
            entry = get_i64(entries + 8 * i)
            put_i64(entries + 8 * kept, entry)
            kept += (entry >> shift) & 255 == digit
        listed = kept
    i = -1  # what is left are equal logits in the order of their ids
    while (count if by_count else mass) < limit:
        i += 1
        count, mass = count + 1, mass + weight_of(weights, get_i64(entries + 8 * i))
    return get_i64(entries + 8 * i) & WORD, mass


@device
def weight_of(weights, entry):
    return fixed(get_f32(weights + 4 * (entry & WORD)))


@device
def collect(x, n, least, above, entries):
    """List the candidates of least <= logit < above (NaN: no bound) by id; their number.

    An entry is the logit's bits, turned so that they ascend as it descends, above the id's 32 bits.
    """
    low, high = splat(least), splat(above)
    listed = 0
    for i in range(0, n, 16):
        v = load_row(x, i, n, NAN)
        inside = lane_bits((v >= low) ^ (v >= high))
        while inside:
            j = i + lowest_bit(inside)
            word = f32_bits(get_f32(x + 4 * j) + ZERO)  # −0 becomes +0
            order = word if word >> 31 else word ^ 0x7FFFFFFF
            put_i64(entries + 8 * listed, (order << 32) | j)
            listed += 1
            inside &= inside - 1
    return listed

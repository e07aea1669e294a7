"""Attention over the paged cache, for a ragged batch of sequences (numerics.md, rules 13 and 14).

A page of 64 tokens is a block. For each row (one query token, one head) a block gives, from zero,

    m = max s_j,  l = Σ exp(s_j − m),  o = Σ exp(s_j − m) v_j        s_j = Σ_d (scale · q_d) k_jd, d ascending

over the keys that the row sees; with a cap s_j becomes cap · tanh(s_j / cap) first. Blocks fold in order
inside superblocks of 512 keys, superblocks fold in order into the result, o / l. A block that a row sees
nothing of is skipped for that row, so no tiling of queries changes a bit.
"""

from __future__ import annotations

import numpy as np

from assay.kernels import ftile
from assay.kernels.share import take
from assay.kernels.sizes import PAGE, SUPER, TOKENS
from assay.simd.device import device
from assay.simd.mathf import exp, tanh
from assay.simd.memory import as_f32, f16_at, f32_at, get_f32, get_i32, load, load_f16, put_f32, store, words
from assay.simd.vector import fma, lane_numbers, select, splat, splat_i32, tree_max, tree_sum

NOTHING = np.float32(-np.inf)
ZERO = np.float32(0.0)
ONE = np.float32(1.0)
ROWS = ftile.tall()
FEW = 3
COLUMNS = 16
_many = ftile.tile(ROWS, COLUMNS)
_few = ftile.tile(FEW, COLUMNS)


@device
def product(a, b, depth, width, y, rows, k, columns):
    """y[rows, columns] = a[rows, k] · b[k, columns], the first `depth` of k only; all in scratch.

    Rows of b and y are `width` long, and columns past `columns` may be written.
    """
    for column in range(0, columns, COLUMNS):
        right = b + 4 * column
        row = 0
        while row < rows:
            left, to = a + 4 * k * row, y + 4 * (width * row + column)
            if rows - row > FEW:
                _many(left, 4 * k, right, 4 * width, depth, to, 4 * width, rows - row, 1)
                row += ROWS
            else:
                _few(left, 4 * k, right, 4 * width, depth, to, 4 * width, rows - row, 1)
                row += FEW


@device
def fold(state, output, result, o, d, fresh):
    """Merge (result[0], result[1], o) into (state[0], state[1], output), or start with it: m, l and o."""
    m, total = get_f32(result), get_f32(result + 4)
    if fresh:
        put_f32(state, m)
        put_f32(state + 4, total)
        for i in range(0, d, 16):
            store(output + 4 * i, load(o + 4 * i))
        return
    before = get_f32(state)
    top = before if before > m else m
    old, new = exp(splat(before) - splat(top)), exp(splat(m) - splat(top))
    put_f32(state, top)
    put_f32(state + 4, tree_max(fma(splat(total), new, splat(get_f32(state + 4)) * old)))
    for i in range(0, d, 16):
        store(output + 4 * i, fma(load(o + 4 * i), new, load(output + 4 * i) * old))


@device
def softmax(scores, low, high, filled, state):
    """Scores[filled] to exp(s − m) for keys low ≤ j < high and 0 elsewhere; m and Σ to the state."""
    top = splat(NOTHING)
    for i in range(0, filled, 16):
        number = lane_numbers() + splat_i32(i)
        seen = (number >= splat_i32(low)) & (number < splat_i32(high))
        s = select(seen, load(scores + 4 * i), splat(NOTHING))
        store(scores + 4 * i, s)
        top = select(top > s, top, s)
    m = tree_max(top)
    total = splat(0.0)
    for i in range(0, filled, 16):
        number = lane_numbers() + splat_i32(i)
        seen = (number >= splat_i32(low)) & (number < splat_i32(high))
        p = select(seen, exp(load(scores + 4 * i) - splat(m)), splat(0.0))
        store(scores + 4 * i, p)
        total = total + p
    put_f32(state, m)
    put_f32(state + 4, tree_sum(total))


def _kernel(load_cache, tile_loader: ftile.Loader, size: int):
    direct = ftile.tile(FEW, COLUMNS, tile_loader, size)

    @device
    def straight(a, b, depth, width, y, rows, k, columns):
        """`product` for a few rows, with b in the cache's type: each element is read once."""
        for column in range(0, columns, COLUMNS):
            direct(a, 4 * k, b + size * column, size * width, depth, y + 4 * column, 4 * width, rows, 1)

    @device
    def widen(source, target, count):
        for i in range(0, count, 16):
            store(target + 4 * i, load_cache(source + size * i))

    @device
    def attend(args, scratch, sequence, tile, kv_head):
        """A tile of one sequence's queries against one key head. `past` tokens precede the first of them.
        Each sees up to itself, or `all_keys` where that isn't 0.
        """
        word = words(args, 16)
        q, keys, values, spans, pasts, tables, y = word[:7]
        pages, heads, kv_heads, d = word[8:12]
        scale, window, cap, causal = as_f32(word[12]), word[13], as_f32(word[14]), word[15]
        begin_row, end_row = get_i32(spans + 4 * sequence), get_i32(spans + 4 * sequence + 4)
        first = begin_row + TOKENS * tile
        tokens = min(TOKENS, end_row - first)
        before = get_i32(pasts + 4 * sequence)
        past = before + first - begin_row
        all_keys = 0 if causal else before + end_row - begin_row
        table = tables + 4 * pages * sequence
        group = heads // kv_heads
        rows = tokens * group
        queries = scratch
        wide_keys = queries + 4 * rows * d
        wide_values = wide_keys + 4 * PAGE * d
        scores = wide_values + 4 * PAGE * d
        block = scores + 4 * rows * PAGE
        inner = block + 4 * rows * d
        outer = inner + 4 * rows * d
        inner_state = outer + 4 * rows * d
        outer_state = inner_state + 8 * rows
        block_state = outer_state + 8 * rows
        for row in range(rows):
            source = q + 4 * d * (heads * (first + row // group) + group * kv_head + row % group)
            for i in range(0, d, 16):
                store(queries + 4 * (d * row + i), load(source + 4 * i) * splat(scale))
        end = max(past + tokens, all_keys)
        begin = max(0, past + 1 - window) if window > 0 else 0
        for page in range(begin // PAGE, (end + PAGE - 1) // PAGE):
            here = PAGE * page
            filled = min(PAGE, end - here)
            place = d * PAGE * (kv_heads * get_i32(table + 4 * page) + kv_head)
            page_keys, page_values = keys + size * place, values + size * place
            if rows <= FEW:
                straight(queries, page_keys, d, PAGE, scores, rows, d, filled)
            else:
                if size != 4:
                    widen(page_keys, wide_keys, PAGE * d)
                    widen(page_values, wide_values, filled * d)
                    page_keys, page_values = wide_keys, wide_values
                product(queries, page_keys, d, PAGE, scores, rows, d, filled)
            if cap > ZERO:
                for i in range(0, rows * PAGE, 16):
                    s = load(scores + 4 * i) * splat(ONE / cap)
                    store(scores + 4 * i, tanh(s) * splat(cap))
            for row in range(rows):
                position = max(past + row // group, all_keys - 1)
                high = min(PAGE, position + 1 - here)
                low = max(0, position + 1 - window - here) if window > 0 else 0
                softmax(scores + 4 * PAGE * row, low, high, filled, block_state + 8 * row)
            if rows <= FEW:
                straight(scores, page_values, filled, d, block, rows, PAGE, d)
            else:
                product(scores, page_values, filled, d, block, rows, PAGE, d)
            for row in range(rows):
                position = max(past + row // group, all_keys - 1)
                high = min(PAGE, position + 1 - here)
                seen_from = max(0, position + 1 - window) if window > 0 else 0
                if max(0, seen_from - here) >= high:
                    continue
                output = block + 4 * d * row
                # A key seen by another row alone adds 0 · v; adding +0 makes the sign of a zero sum the same
                # without it.
                for i in range(0, d, 16):
                    store(output + 4 * i, load(output + 4 * i) + splat(0.0))
                first_of_super = page == max(page // (SUPER // PAGE) * (SUPER // PAGE), seen_from // PAGE)
                state, folded = inner_state + 8 * row, inner + 4 * d * row
                fold(state, folded, block_state + 8 * row, output, d, first_of_super)
                last_of_super = (page + 1) % (SUPER // PAGE) == 0 or here + PAGE > position
                if last_of_super:
                    first_super = here // SUPER == seen_from // SUPER
                    fold(outer_state + 8 * row, outer + 4 * d * row, state, folded, d, first_super)
        for row in range(rows):
            target = y + 4 * d * (heads * (first + row // group) + group * kv_head + row % group)
            inverse = splat(ONE / get_f32(outer_state + 8 * row + 4))
            for i in range(0, d, 16):
                store(target + 4 * i, load(outer + 4 * (d * row + i)) * inverse)

    def kernel(args, tid, nthreads):
        """(q, keys, values, spans, pasts, table, y, S, P, heads, kv_heads, D, scale, window, cap, causal,
        scratch, its stride)
        """
        word = words(args, 18)
        spans, sequences, kv_heads, scratch = word[3], word[7], word[10], word[16] + word[17] * tid
        item = take(args)
        start = 0
        for sequence in range(sequences):
            rows = get_i32(spans + 4 * sequence + 4) - get_i32(spans + 4 * sequence)
            tiles = (rows + TOKENS - 1) // TOKENS
            while item < start + tiles * kv_heads:
                # The last tile sees the most keys; it goes first, so that the threads end together.
                tile = tiles - 1 - (item - start) // kv_heads
                attend(args, scratch, sequence, tile, (item - start) % kv_heads)
                item = take(args)
            start += tiles * kv_heads

    return kernel


float16 = _kernel(load_f16, f16_at, 2)
float32 = _kernel(load, f32_at, 4)

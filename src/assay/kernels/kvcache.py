"""Writing keys and values into the paged cache.

A page holds 64 tokens. Keys lie transposed, key[page, head, d, token], so that attention's lanes are keys;
values lie value[page, head, token, d].
"""

from __future__ import annotations

from assay.kernels.share import fault, first_row
from assay.kernels.sizes import PAGE
from assay.simd.memory import f32_bits, get_f32, get_i32, get_i64, put_f32, put_half

INFINITE = 0x7F800000


def _writer(size: int):
    def kernel(args, tid, nthreads):
        """(k, v, slots, keys, values, T, H, D): slots[t] = 64 · page + place in the page."""
        k, v, slots = get_i64(args + 8), get_i64(args + 16), get_i64(args + 24)
        keys, values = get_i64(args + 32), get_i64(args + 40)
        rows, heads, d = get_i64(args + 48), get_i64(args + 56), get_i64(args + 64)
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            slot = get_i32(slots + 4 * row)
            page, place = slot // PAGE, slot % PAGE
            bad = False
            for head in range(heads):
                source = 4 * d * (heads * row + head)
                base = size * d * PAGE * (heads * page + head)
                for i in range(d):
                    key, value = get_f32(k + source + 4 * i), get_f32(v + source + 4 * i)
                    at_key, at_value = (
                        keys + base + size * (PAGE * i + place),
                        values + base + size * (d * place + i),
                    )
                    if size == 2:
                        bad |= put_half(at_key, key) | put_half(at_value, value)
                    else:
                        put_f32(at_key, key)
                        put_f32(at_value, value)
                        bad |= (f32_bits(key) & INFINITE == INFINITE) | (
                            f32_bits(value) & INFINITE == INFINITE
                        )
            if bad:
                fault(args, row)

    return kernel


write_f16 = _writer(2)
write_f32 = _writer(4)

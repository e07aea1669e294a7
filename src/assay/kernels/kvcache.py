"""Writing keys and values into the paged cache.

A page holds 64 tokens. Keys lie transposed, key[page, head, d, token], so that attention's lanes are keys;
values lie value[page, head, token, d].
"""

from __future__ import annotations

from assay.kernels.share import fault, first_row
from assay.kernels.sizes import PAGE
from assay.simd.device import device
from assay.simd.mathf import f32_bits
from assay.simd.memory import get_f32, get_i32, put_f32, put_half, words

INFINITE = 0x7F800000


@device
def put_float(address, value):
    """Store a float32; whether it is infinite or not a number."""
    put_f32(address, value)
    return f32_bits(value) & INFINITE == INFINITE


def _writer(size: int, put):
    def kernel(args, tid, nthreads):
        """(k, v, slots, keys, values, T, H, D): slots[t] = 64 · page + place in the page."""
        k, v, slots, keys, values, rows, heads, d = words(args, 8)
        for row in range(first_row(rows, tid, nthreads), first_row(rows, tid + 1, nthreads)):
            slot = get_i32(slots + 4 * row)
            page, place = slot // PAGE, slot % PAGE
            bad = False
            for head in range(heads):
                source = 4 * d * (heads * row + head)
                base = size * d * PAGE * (heads * page + head)
                for i in range(d):
                    key, value = get_f32(k + source + 4 * i), get_f32(v + source + 4 * i)
                    at_key = keys + base + size * (PAGE * i + place)
                    at_value = values + base + size * (d * place + i)
                    bad |= put(at_key, key) | put(at_value, value)
            if bad:
                fault(args, row)

    return kernel


write_f16 = _writer(2, put_half)
write_f32 = _writer(4, put_float)

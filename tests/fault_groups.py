"""The part of faults.py that is about graphs of files: their operators, kernels and readers."""

from __future__ import annotations

from typing import TypeAlias

Change: TypeAlias = tuple[str, str, str]


def kernels(operators: str) -> str:
    """The tests of these operators' kernels."""
    files = " ".join(f"tests/every_op/test_{name}.py" for name in ("kernels", "properties", "faults"))
    return f"{files} -k '{operators}'"


GROUPS: tuple[tuple[str, tuple[Change, ...]], ...] = (
    (
        kernels("layer_norm or gelu or bias"),
        (
            (
                "kernels/norm.py",
                "mean = splat(tree_sum(total) / np.float32(n))",
                "mean = splat(np.float32(0.0))",
            ),
            ("kernels/norm.py", "lane_numbers() < splat_i32(n - i)", "lane_numbers() < splat_i32(n)"),
            ("kernels/elementwise.py", "at -= stride * column", "at -= stride"),
            ("simd/mathf.py", "small = select(size < splat(0.625)", "small = select(size < splat(0.3)"),
            (
                "simd/mathf.py",
                "u = select(t > splat(16.0), splat(16.0),",
                "u = select(t > splat(3.0), splat(3.0),",
            ),
        ),
    ),
    (
        kernels("silu"),
        (("kernels/blocks.py", "lambda a: a / (1.0 + exp(-a))", "lambda a: a / (1.0 + exp(a))"),),
    ),
    (
        "tests/formats/test_loader.py",
        (
            ("formats/loader.py", "start + max(_AHEAD, self._batch)", "start + _AHEAD"),
            (
                "formats/loader.py",
                "(rank + 1) * self.records // world",
                "(rank + 1) * (self.records // world)",
            ),
            ("formats/records.py", "found.offset + wanted > size", "False"),
            ("formats/records.py", "archive.open(info).close()", "pass"),
        ),
    ),
    (
        "tests/ops/test_versions.py",
        (
            ("ops/standard/older.py", "range(rank, rank + count)", "range(count)"),
            (
                "ops/standard/older.py",
                "**attributes | dict(node.attributes)",
                "**dict(node.attributes) | attributes",
            ),
            ("ops/standard/older.py", "axis == -1 or (rank", "axis < 0 or (rank"),
            ("ops/standard/older.py", "momentum=0.0), outputs", "momentum=1.0), outputs"),
            ("ops/standard/older.py", "training_mode=int(not given", "training_mode=int(given"),
            ("ops/standard/older.py", '"floor": "round_prefer_ceil"', '"floor": "ceil"'),
            ("ops/standard/older.py", "new.like_data(1 / p)", "new.like_data(p)"),
            ("ops/standard/older.py", '"Concat", zero, rest', '"Concat", rest, zero'),
            ("ops/standard/older.py", '@until(11, "Hardmax', '@until(1, "Hardmax'),
            ("ops/standard/versions.py", "if version <= last", "if version < last"),
        ),
    ),
    (
        "tests/kernels/test_reduce.py",
        (
            (
                "kernels/reduce.py",
                "(length * run + j) % 16)\n            for i",
                "j % 16)\n            for i",
            ),
            (
                "kernels/reduce.py",
                "load_filled(space, left_over, start)",
                "load_filled(space, left_over, 0.0)",
            ),
            (
                "simd/numbers.py",
                "builder.or_(builder.fcmp_ordered(symbol, b, a)",
                "builder.and_(builder.fcmp_ordered(symbol, b, a)",
            ),
            (
                "kernels/reduce.py",
                "-(-value // divisor) if value < 0 else value // divisor",
                "value // divisor",
            ),
            ("kernels/strides.py", "runs[-1][0] == inside:", "runs[-1][0] != inside:"),
        ),
    ),
    (
        "tests/kernels/test_index.py",
        (
            (
                "kernels/index.py",
                "get_i32(index + 4 * part)\n        number += size if number < 0 else 0",
                "get_i32(index + 4 * part)\n        number += size if number < 0 and part == 0 else 0",
            ),
            ("kernels/index.py", "low <= target < high", "low <= target <= high"),
            ("kernels/index.py", "length - 1 - 2 * time", "length - 2 * time"),
            ("kernels/strides.py", "count * parts, count, 0, parts", "count, count, 0, parts"),
        ),
    ),
    (
        "tests/kernels/test_order.py",
        (
            (
                "kernels/order.py",
                "get_i64(space + 16 * entry + 8) > index",
                "get_i64(space + 16 * entry + 8) < index",
            ),
            ("kernels/order.py", "kind >= FLOAT32 and key == MOST", "kind >= FLOAT32 and key == 0"),
            ("kernels/element.py", "SIGN - word if word < 0 else word", "word"),
        ),
    ),
    (
        "tests/kernels/test_norm.py tests/kernels/test_resize.py tests/kernels/test_softmax.py",
        (
            ("kernels/norm.py", "n // spread * (row % period)", "n // spread * (row // period)"),
            (
                "kernels/resize.py",
                "splat(get_f32(weights + 4 * tap)), value, total",
                "splat(get_f32(weights + 4 * tap)), value, value",
            ),
            ("kernels/filters.py", "beyond >= 0.5", "beyond > 0.5"),
            (
                "kernels/softmax.py",
                "exp(load_row(source, i, n, LOWEST) - top)",
                "exp(load_row(source, i, n) - top)",
            ),
        ),
    ),
    (
        "tests/kernels/test_matmul.py tests/kernels/test_conv.py tests/kernels/test_window.py",
        (
            ("kernels/matmul.py", "left += above % get_i64(word)", "left += above"),
            ("kernels/matmul.py", "rows <= tall and n_stride == size", "rows <= tall"),
            ("kernels/ftile.py", "made.chosen(bias, biased, sums)", "sums"),
            ("kernels/conv.py", "place = min(i, high - 16)", "place = i"),
            ("kernels/conv.py", "low = min(count, -(start // step))", "low = min(count, -start // step)"),
            ("kernels/conv.py", "numbers if depth + steps == k else 0", "numbers"),
            ("kernels/conv_sizes.py", "(start + p - d * tap) // s) for", "(start - d * tap) // s) for"),
            ("kernels/window.py", "(total < value) | (value != value)", "(total < value)"),
            ("kernels/window.py", "oy % sy * sx + ox % sx", "oy % sy + ox % sx"),
            ("kernels/window.py", "(ix * h + iy) * d + iz if turned", "(ix * d + iz) * h + iy if turned"),
        ),
    ),
)

"""What makes LLVM's code: types, constants, calls, memory at an address, loops, and functions of those that
kernels call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence

from llvmlite import ir
from numba.core.types.misc import unliteral
from numba.extending import intrinsic

F32, F64 = ir.FloatType(), ir.DoubleType()
I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))


def constant(kind: ir.Type, value: float | int) -> ir.Constant:
    """A constant with `value`, of a vector in every lane."""
    if isinstance(kind, ir.VectorType):
        return ir.Constant(kind, [ir.Constant(kind.element, value)] * kind.count)
    return ir.Constant(kind, value)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Emit a call of the LLVM intrinsic or external function `name`."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    module = builder.module
    function = module.globals.get(name) or ir.Function(module, kind, name)
    return builder.call(function, arguments)


def spread(builder: ir.IRBuilder, scalar: ir.Value, count: int) -> ir.Value:
    """A vector with `scalar` in each of `count` lanes."""
    none = ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined)
    first = builder.insert_element(none, scalar, I32(0))
    return builder.shuffle_vector(first, none, constant(ir.VectorType(I32, count), 0))


def least(builder: ir.IRBuilder, left: ir.Value, right: ir.Value) -> ir.Value:
    """The lesser of two signed integers."""
    return builder.select(builder.icmp_signed("<", left, right), left, right)


def named(kind: ir.Type) -> str:
    """A type's part of the name of an LLVM intrinsic."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{kind.element.intrinsic_name}"
    return kind.intrinsic_name


def fused(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a·b + c with one rounding."""
    return call(builder, f"llvm.fma.{named(a.type)}", a.type, a, b, c)


def looked_up(builder: ir.IRBuilder, place: ir.Value, table: Sequence[int]) -> ir.Value:
    """The table's number at each place. Of a place beyond its ends, the nearest."""
    found: ir.Value = constant(place.type, table[0])
    for number, entry in enumerate(table[1:], start=1):
        below = builder.icmp_signed("<", place, constant(place.type, number))
        found = builder.select(below, found, constant(place.type, entry))
    return found


def pointer(builder: ir.IRBuilder, address: ir.Value, pointee: ir.Type) -> ir.Value:
    return builder.inttoptr(address, pointee.as_pointer())


def load_at(builder: ir.IRBuilder, address: ir.Value, kind: ir.Type, align: int) -> ir.Value:
    value = builder.load(pointer(builder, address, kind))
    value.align = align
    return value


def store_at(builder: ir.IRBuilder, address: ir.Value, value: ir.Value, align: int) -> None:
    builder.store(value, pointer(builder, address, value.type)).align = align


def loop(
    builder: ir.IRBuilder,
    count: ir.Value,
    starts: Sequence[ir.Value],
    body: Callable[[ir.Value, list[ir.Value]], Sequence[ir.Value]],
) -> Sequence[ir.Value]:
    """Emit `body(step, values)`, which makes the next values, for each step below `count`, and once at least;
    the last values.
    """
    entry, inside, done = builder.block, *map(builder.append_basic_block, ("step", "done"))
    builder.branch(inside)
    builder.position_at_end(inside)
    step, *values = map(builder.phi, (I64, *(start.type for start in starts)))
    results = body(step, values)
    following = builder.add(step, I64(1))
    for phi, start, result in zip((step, *values), (I64(0), *starts), (following, *results), strict=True):
        phi.add_incoming(start, entry)
        phi.add_incoming(result, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), inside, done)
    builder.position_at_end(done)
    return results


def choose(
    builder: ir.IRBuilder, code: ir.Value, ways: Sequence[Callable[[], ir.Value | None]]
) -> ir.Value | None:
    """Emit `ways[code]()`, and the last way for any other code; its value."""
    blocks, done = [builder.append_basic_block("way") for _ in ways], builder.append_basic_block("done")
    switch = builder.switch(code, blocks[-1])
    values, ends = [], []
    for number, (block, way) in enumerate(zip(blocks, ways, strict=True)):
        if number < len(ways) - 1:
            switch.add_case(I64(number), block)
        builder.position_at_end(block)
        values.append(way())
        ends.append(builder.block)
        builder.branch(done)
    builder.position_at_end(done)
    if values[0] is None:
        return None
    chosen = builder.phi(values[0].type)
    for value, end in zip(values, ends, strict=True):
        chosen.add_incoming(value, end)
    return chosen


def instruction(*signatures):
    """Makes of `emit(builder, *values)` a function that kernels call. Of several signatures, each
    `result(*arguments)`, the first that fits, as a scalar fits a vector that takes it in all lanes; to a
    single one its arguments are converted. `emit` returns a value, several as a tuple, or None for void.
    """

    def made(emit):
        def typed(typingctx, *arguments):
            given = tuple(map(unliteral, arguments))
            fitting = [each for each in signatures if each.args == given] or [
                each
                for each in signatures
                if len(given) == len(each.args)
                and all(
                    a == b or b.can_convert_from(typingctx, a) for a, b in zip(given, each.args, strict=True)
                )
            ]
            if not fitting and len(signatures) > 1:
                return None

            def lower(context, builder, sig, args):
                result = emit(builder, *args)
                if isinstance(result, tuple):
                    return context.make_tuple(builder, sig.return_type, result)
                return context.get_dummy_value() if result is None else result

            return (fitting or signatures)[0], lower

        typed.__name__, typed.__qualname__, typed.__doc__ = emit.__name__, emit.__qualname__, emit.__doc__
        # Numba's context stands where the builder does.
        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return made


def conversion(signature, operation, kind: ir.Type):
    """The function that kernels call to convert a value to an LLVM type."""

    @instruction(signature)
    def convert(builder, value):
        return operation(builder, value, kind)

    return convert

"""What a team of threads needs: calls by address, floating-point state, pauses, sleep and wake."""

from __future__ import annotations

import platform

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from assay.simd.vector import I8, I32, I64, call

_X86 = platform.machine() in ("x86_64", "AMD64")


@intrinsic
def invoke(typingctx, kernel, args, tid, nthreads):
    """Call the kernel at an address."""

    def emit(context, builder, sig, values):
        kind = ir.FunctionType(ir.VoidType(), [I64] * 3)
        builder.call(builder.inttoptr(values[0], kind.as_pointer()), values[1:])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), emit


@intrinsic
def system_call(typingctx, function, number, a, b, c):
    """Call C's `syscall` at an address, with three arguments and a null fourth."""

    def emit(context, builder, sig, values):
        kind = ir.FunctionType(I64, [I64], var_arg=True)
        function = builder.inttoptr(values[0], kind.as_pointer())
        return builder.call(function, [*values[1:], I64(0)])

    return types.int64(*[types.int64] * 5), emit


@intrinsic
def pause(typingctx):
    """Tell the processor that this is a spin loop."""

    def emit(context, builder, sig, values):
        if _X86:
            call(builder, "llvm.x86.sse2.pause", ir.VoidType())
        return context.get_dummy_value()

    return types.void(), emit


@intrinsic
def float_state(typingctx):
    """The floating-point control word: rounding, flush-to-zero, masked exceptions (MXCSR or FPCR)."""

    def emit(context, builder, sig, values):
        if not _X86:
            return builder.zext(builder.asm(ir.FunctionType(I64, []), "mrs $0, fpcr", "=r", [], True), I64)
        slot = builder.alloca(I32)
        call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))
        return builder.zext(builder.load(slot), I64)

    return types.int64(), emit


@intrinsic
def set_float_state(typingctx, state):
    """Set the floating-point control word."""

    def emit(context, builder, sig, values):
        if not _X86:
            builder.asm(ir.FunctionType(ir.VoidType(), [I64]), "msr fpcr, $0", "r", [values[0]], True)
            return context.get_dummy_value()
        slot = builder.alloca(I32)
        builder.store(builder.trunc(values[0], I32), slot)
        call(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64), emit


DEFAULT_STATE = 0x1F80 if _X86 else 0
"""Round to nearest even, keep subnormals, no traps."""

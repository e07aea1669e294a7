"""What a team of threads needs: calls by address, floating-point state, pauses, sleep and wake."""

from __future__ import annotations

import platform

from llvmlite import ir
from numba.core import types

from assay.simd.emit import I8, I32, I64, call, instruction

_X86 = platform.machine() in ("x86_64", "AMD64")


@instruction(types.void(*[types.int64] * 4))
def invoke(builder, kernel, args, tid, nthreads):
    """Call the kernel at an address."""
    kind = ir.FunctionType(ir.VoidType(), [I64] * 3)
    builder.call(builder.inttoptr(kernel, kind.as_pointer()), (args, tid, nthreads))


@instruction(types.int64(*[types.int64] * 5))
def system_call(builder, function, number, a, b, c):
    """Call C's `syscall` at an address, with three arguments and a null fourth."""
    kind = ir.FunctionType(I64, [I64], var_arg=True)
    return builder.call(builder.inttoptr(function, kind.as_pointer()), (number, a, b, c, I64(0)))


@instruction(types.void())
def pause(builder):
    """Tell the processor that this is a spin loop."""
    if _X86:
        call(builder, "llvm.x86.sse2.pause", ir.VoidType())


@instruction(types.int64())
def float_state(builder):
    """The floating-point state: rounding, flush-to-zero, masked exceptions and the flags of what has happened
    (MXCSR, or FPCR and above it FPSR).
    """
    if not _X86:
        control, flags = (
            builder.asm(ir.FunctionType(I64, []), f"mrs $0, {name}", "=r", [], True)
            for name in ("fpcr", "fpsr")
        )
        return builder.or_(control, builder.shl(flags, I64(32)))
    slot = builder.alloca(I32)
    call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))
    return builder.zext(builder.load(slot), I64)


@instruction(types.void(types.int64))
def set_float_state(builder, state):
    """Set the floating-point state."""
    if not _X86:
        for name, word in (
            ("fpcr", builder.and_(state, I64(0xFFFFFFFF))),
            ("fpsr", builder.lshr(state, I64(32))),
        ):
            builder.asm(ir.FunctionType(ir.VoidType(), [I64]), f"msr {name}, $0", "r", [word], True)
        return
    slot = builder.alloca(I32)
    builder.store(builder.trunc(state, I32), slot)
    call(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))


DEFAULT_STATE = 0x1F80 if _X86 else 0
"""Round to nearest even, keep subnormals, no traps."""
INVALID, FLAGS = (0x1, 0xD) if _X86 else (0x1 << 32, 0x7 << 32)
"""The state's flag of an invalid operation; those of all operations that make infinity or NaN of finite
numbers: invalid ones, divisions by zero and overflows. A flag stays.
"""

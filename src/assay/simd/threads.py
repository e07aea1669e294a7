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
    """The floating-point control word: rounding, flush-to-zero, masked exceptions (MXCSR or FPCR)."""
    if not _X86:
        return builder.zext(builder.asm(ir.FunctionType(I64, []), "mrs $0, fpcr", "=r", [], True), I64)
    slot = builder.alloca(I32)
    call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))
    return builder.zext(builder.load(slot), I64)


@instruction(types.void(types.int64))
def set_float_state(builder, state):
    """Set the floating-point control word. On x86 the flags are in it, elsewhere they are cleared."""
    if not _X86:
        builder.asm(ir.FunctionType(ir.VoidType(), [I64]), "msr fpcr, $0", "r", [state], True)
        builder.asm(ir.FunctionType(ir.VoidType(), []), "msr fpsr, xzr", "", [], True)
        return
    slot = builder.alloca(I32)
    builder.store(builder.trunc(state, I32), slot)
    call(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))


@instruction(types.void())
def raise_flag(builder):
    """Raise the flag of an invalid operation, for a result that was chosen and not computed."""
    if not _X86:
        asm = "mrs $0, fpsr\\0Aorr $0, $0, #1\\0Amsr fpsr, $0"
        builder.asm(ir.FunctionType(I64, []), asm, "=r", [], True)
        return
    slot = builder.alloca(I32)
    where = builder.bitcast(slot, I8.as_pointer())
    call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), where)
    builder.store(builder.or_(builder.load(slot), I32(1)), slot)
    call(builder, "llvm.x86.sse.ldmxcsr", ir.VoidType(), where)


@instruction(types.int64())
def float_flags(builder):
    """Not 0 if, since the state was set, an operation made infinity or NaN of finite numbers: the flags
    invalid operation, division by zero and overflow, which stay.
    """
    if not _X86:
        flags = builder.asm(ir.FunctionType(I64, []), "mrs $0, fpsr", "=r", [], True)
        return builder.and_(flags, I64(0x7))
    slot = builder.alloca(I32)
    call(builder, "llvm.x86.sse.stmxcsr", ir.VoidType(), builder.bitcast(slot, I8.as_pointer()))
    return builder.zext(builder.and_(builder.load(slot), I32(0xD)), I64)


DEFAULT_STATE = 0x1F80 if _X86 else 0
"""Round to nearest even, keep subnormals, no traps."""

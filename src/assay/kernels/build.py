"""A child process that compiles kernels: `python -m assay.kernels.build`, on stdin a line `NAME<tab>OBJECT
FILE` for each, whose name is the answer.

Only this process imports Numba, with Numba's processor set by its parent's environment, so a program that
serves needs neither the compiler's start time nor its memory. An object file appears whole or not at all, and
only while the sources are those that its name says; the kernel's name is printed when it is there.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Protocol

from assay import settings
from assay.errors import KernelBuildError
from assay.kernels.digest import Sources, module_of, object_of, symbol_of
from assay.kernels.target import Target

# Calls go through the object's table of addresses: what llvmlite's memory manager counts before it reserves
# memory on x86-64, unlike the stubs of direct calls.
_CALLS_BY_TABLE = '\n!llvm.module.flags = !{!900001}\n!900001 = !{i32 7, !"RtLibUseGOT", i32 1}\n'
STALE = "stale"
"""What a child answers that must be started anew."""
SEAL = hashlib.sha256().digest_size


def environment(target: Target) -> dict[str, str]:
    """This process's environment, made from its parent's: Numba sees our processor and none of the caller's
    Numba settings, and modules are found where the parent finds them.
    """
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join([here, *(entry for entry in sys.path if entry)])
    # Optimised once, by the builder, when all that a kernel calls is linked into it.
    numba = {"NUMBA_CPU_NAME": target.cpu, "NUMBA_CPU_FEATURES": target.features, "NUMBA_OPT": "0"}
    return settings.child_environment("NUMBA_", {**numba, "PYTHONPATH": path})


class Machine(Protocol):
    """What is used of llvmlite's target machine."""

    def emit_object(self, module: object) -> bytes: ...

    def emit_assembly(self, module: object) -> str: ...


def optimised(name: str) -> tuple[Machine, object]:
    """The machine that Numba compiles for, and the kernel `name` as a module with one exported symbol."""
    from llvmlite import binding as llvm
    from numba import cfunc
    from numba.core import types
    from numba.core.registry import cpu_target

    module, attribute = module_of(name)
    function = getattr(importlib.import_module(module), attribute)
    signature = types.void(types.int64, types.int64, types.int64)
    compiled = cfunc(signature, nopython=True, error_model="numpy", boundscheck=False, _nrt=False)(function)
    parsed = llvm.parse_assembly(compiled._library.get_llvm_str() + _CALLS_BY_TABLE)
    for other in (*parsed.functions, *parsed.global_variables):
        if not other.is_declaration and other.name != compiled.native_name:
            other.linkage = "internal"
    exported = parsed.get_function(compiled.native_name)
    exported.name = symbol_of(name)
    exported.linkage = "external"
    codegen = cpu_target.target_context.codegen()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        codegen._get_host_cpu_name(), codegen._tm_features, opt=3, reloc="pic", codemodel="small"
    )
    options = llvm.PipelineTuningOptions(speed_level=3)
    passes = llvm.create_pass_builder(machine, options)
    passes.getModulePassManager().run(parsed, passes)
    return machine, parsed


def write_object(name: str, path: Path, content: bytes) -> None:
    """Write a kernel's object file. Raises KernelBuildError when the sources are no longer those that the
    file's name says: it would be stale for ever.
    """
    if path.name != object_of(name, Sources().digest(name)):
        raise KernelBuildError("the sources changed while it was compiled", place=name, hint="try again")
    write_whole(path, sealed(content))


def sealed(content: bytes) -> bytes:
    """An object with its SHA-256 behind it: code that a disk or a crash has damaged must not run."""
    return content + hashlib.sha256(content).digest()


def unsealed(content: bytes) -> bytes | None:
    """The object without its digest; None where it isn't whole."""
    code = content[:-SEAL]
    return code if code and sealed(code) == content else None


def write_whole(path: Path, content: bytes) -> None:
    """Write through a temporary file, so that two processes may do it at once."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def main() -> None:
    known = Sources()
    for line in sys.stdin:
        name, _, path = line.rstrip("\n").partition("\t")
        if known.digest(name) != Sources().digest(name):
            # What was imported for a kernel before is no longer what the files say.
            print(STALE, flush=True)
            return
        machine, module = optimised(name)
        write_object(name, Path(path), machine.emit_object(module))
        print(name, flush=True)


if __name__ == "__main__":
    main()

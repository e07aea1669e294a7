"""A child that compiles kernels for the processor in its environment: an object and its assembly for each
line `NAME<tab>OBJECT FILE<tab>ASSEMBLY FILE` of stdin."""

from __future__ import annotations

import sys
from pathlib import Path

from assay.kernels.build import optimised, write_object, write_whole


def main() -> None:
    from llvmlite import binding as llvm

    for line in sys.stdin:
        name, objects, listing = line.rstrip("\n").split("\t")
        machine, module = optimised(name)
        # Code generation changes a module, so each gets its own.
        copy = llvm.parse_assembly(str(module))
        write_object(name, Path(objects), machine.emit_object(module))
        write_whole(Path(listing), machine.emit_assembly(copy).encode())


if __name__ == "__main__":
    main()

"""What a kernel's name says: `norm.rms_norm` is in assay.kernels.norm; `package.module:function` is a user's
own.
"""

from __future__ import annotations

import re


def module_of(name: str) -> tuple[str, str]:
    """The importable module and the attribute in it."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        return module, attribute
    module, _, attribute = name.rpartition(".")
    return f"assay.kernels.{module}", attribute


def object_of(name: str, digest: str) -> str:
    """The name of the kernel's object file, when its sources have this digest."""
    return f"{name.replace(':', '.')}-{digest}.o"


def symbol_of(name: str) -> str:
    """The exported symbol in the kernel's object file."""
    return "assay_" + re.sub(r"\W", "_", name)

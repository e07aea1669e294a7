"""Memory on a chosen NUMA node: which nodes there are, and the `mbind` system call."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path

from assay.errors import HardwareFault

_ONLINE = Path("/sys/devices/system/node/online")
_MBIND = {"x86_64": 237, "aarch64": 235}
_MPOL_BIND = 2
_MAX_NODES = 1024


def online_nodes(listing: Path = _ONLINE) -> tuple[int, ...]:
    """The nodes of this machine, listed like "0-1,3"; node 0 alone where the system doesn't say."""
    if not listing.exists():
        return (0,)
    spans = [part.split("-") for part in listing.read_text().strip().split(",")]
    return tuple(node for span in spans for node in range(int(span[0]), int(span[-1]) + 1))


def bind(address: int, nbytes: int, node: int, nodes: tuple[int, ...]) -> str:
    """Ask for pages on `node`, which must be one of `nodes` (HardwareFault). "on", or "off: " and why not."""
    if node not in nodes:
        want, hint = f"one of {nodes}", "see `numactl -H`"
        raise HardwareFault("no such NUMA node", want=want, got=str(node), hint=hint)
    if len(nodes) == 1:
        return "off: the machine has one node"
    return mbind(address, nbytes, node)


def mbind(address: int, nbytes: int, node: int) -> str:
    """The system call itself: "on", or "off: " and the system's reason."""
    number = _MBIND.get(platform.machine())
    if platform.system() != "Linux" or number is None:
        return f"off: no mbind on {platform.system()} {platform.machine()}"
    word = 8 * ctypes.sizeof(ctypes.c_ulong)
    mask = (ctypes.c_ulong * (_MAX_NODES // word))()
    mask[node // word] = 1 << node % word
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    # Variadic: every argument needs its full width stated.
    failed = call(
        ctypes.c_long(number), ctypes.c_void_p(address), ctypes.c_ulong(nbytes), ctypes.c_long(_MPOL_BIND),
        mask, ctypes.c_ulong(_MAX_NODES), ctypes.c_ulong(0),
    )  # fmt: skip
    return f"off: mbind: {os.strerror(ctypes.get_errno())}" if failed else "on"

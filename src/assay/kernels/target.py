"""Which processor kernels are compiled for: the host, or one of three fixed levels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from assay import settings
from assay.errors import HardwareFault


@dataclass(frozen=True)
class Target:
    """LLVM's name of a processor and its features, one `+name` or `-name` each, joined by commas."""

    level: str
    cpu: str
    features: str

    def has(self, *names: str) -> bool:
        listed = self.features.split(",")
        return all(f"+{name}" in listed for name in names)


_AVX2 = "+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe"
_AVX512 = f"{_AVX2},+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+avx512vnni"
LEVELS = {
    "avx512": Target("avx512", "x86-64-v4", _AVX512),
    "avx2": Target("avx2", "x86-64-v3", _AVX2),
    "baseline": Target("baseline", "x86-64", "+sse2"),
}


@cache
def host() -> Target:
    """The processor that this process runs on."""
    from llvmlite import binding as llvm

    features: str = llvm.get_host_cpu_features().flatten()
    return Target("host", llvm.get_host_cpu_name(), features)


def current() -> Target:
    """The target that ASSAY_CPU asks for. Raises HardwareFault when this processor lacks it."""
    try:
        return named(settings.CPU.get())
    except HardwareFault as fault:
        fault.hint = f"unset {settings.CPU.name} to compile for this processor"
        raise fault.at(settings.CPU.name) from None


def named(level: str) -> Target:
    """The target of one of the levels of ASSAY_CPU. Raises HardwareFault when this processor lacks it."""
    if level == "host":
        return host()
    target = LEVELS[level]
    missing = [part[1:] for part in target.features.split(",") if not host().has(part[1:])]
    if missing:
        want, got = f"{level}: {target.features}", f"{host().cpu} without {', '.join(missing)}"
        raise HardwareFault("this processor can't run the kernels asked for", want=want, got=got)
    return target

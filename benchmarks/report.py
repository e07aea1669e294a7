"""The figures as text for people, and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks import starts
from benchmarks.correctness import PREFIXES, Agreement
from benchmarks.engines import DISTURBED, Series
from benchmarks.limits import Cost, Limits

Found = dict[str, Any]
"""What is written as JSON."""

GOALS = {
    ("decode", "q4_1", "llamacpp"): 2.0,
    ("decode", "q4_0", "llamacpp"): 1.3,
    ("decode", "q8_0", "llamacpp"): 1.25,
    ("decode", "f16", "llamacpp"): 1.05,
    ("prefill", "q4_0", "openvino"): 1.2,
    ("prefill", "q8_0", "openvino"): 1.2,
    ("batch", "q8_0", "openvino"): 1.6,
}
"""Ratios to reach: (figure, file, peer)."""
MEMORY = 1.25
"""Bytes that may be resident for each byte of tensors, beside the cache and the arena."""
TITLES = {"prefill": "prefill 512", "decode": "decode 128", "batch": "32 × (128 + 64)"}


def conditions(found: Mapping[str, object]) -> None:
    print("\n".join(f"{name:<10} {value}" for name, value in found.items()))


def file(name: str, cost: Cost, abouts: Mapping[str, object]) -> None:
    print(f"\n{name}: {cost.tensor_bytes / 1e6:.1f} MB of tensors, {cost.elements / 1e6:.1f} M weights")
    for engine, about in abouts.items():
        assert isinstance(about, dict)
        print(f"  {engine:<9} " + ", ".join(f"{key} {value}" for key, value in about.items()))


def correctness(agreements: Mapping[str, Agreement]) -> None:
    print("  correctness: divergence from float32 arithmetic, and next tokens that are its likeliest")
    for engine, agreement in agreements.items():
        divergence = "logits not given" if agreement.mean is None else f"KL mean {agreement.mean:.5f}"
        if agreement.max is not None:
            divergence += f", max {agreement.max:.4f}"
        verdict = "" if agreement.good else "   NOT THE SAME COMPUTATION"
        print(f"    {engine:<9} {divergence:<32} {agreement.same_tokens}/{PREFIXES}{verdict}")


def figure(name: str, what: str, series: Mapping[str, Series], limits: Limits, limit: float) -> Found:
    """Print tokens per second (least, median, most), the share of the limit, and Assay's ratios by round."""
    print(f"  {TITLES[what]}: limit {limit:,.0f} tokens/s at {_limits(limits)}")
    found: Found = {"limits": limits.figures(), "limit": limit, "engines": {}, "ratios": {}}
    for engine, one in series.items():
        settled = ", ".join(f"{key} {value}" for key, value in one.variant.items())
        busy = max(one.foreign)
        share = median(one.rates) / limit
        print(
            f"    {engine:<9} {_three(one.rates, ',.1f')} tokens/s, {share:4.0%} of the limit"
            + (f"   ({settled})" if settled else "")
            + (f"   disturbed: others used up to {busy:.0%}" if busy > DISTURBED else "")
        )
        found["engines"][engine] = {"rates": one.rates, "variant": dict(one.variant), "foreign": one.foreign}
    for peer, one in series.items():
        if peer == "assay":
            continue
        ratios = [ours / theirs for ours, theirs in zip(series["assay"].rates, one.rates, strict=True)]
        goal = GOALS.get((what, name, peer))
        note = "" if goal is None else f"   goal {goal}: {'reached' if median(ratios) >= goal else 'MISSED'}"
        print(f"    assay / {peer:<9} {_three(ratios, '.2f')}{note}")
        found["ratios"][peer] = ratios
    return found


def python(seconds: float) -> None:
    print(f"  Python outside the tape: {1e3 * seconds:.3f} ms per decoding step (goal 0.2)")


def memory(engine: str, taken: Mapping[str, int], tensors: int) -> None:
    extra, most = (taken[when] - taken["import"] for when in ("resident", "peak"))
    line = f"  memory: {engine} {extra / 1e6:.0f} MB above its import (at most {most / 1e6:.0f})"
    if "arena" in taken:
        allowed = MEMORY * tensors + taken["cache"] + taken["arena"]
        verdict = "reached" if extra <= allowed else "MISSED"
        parts = f"{MEMORY} × {tensors / 1e6:.0f} + cache {taken['cache'] / 1e6:.0f}"
        line += f"; allowed {allowed / 1e6:.0f} = {parts} + arena {taken['arena'] / 1e6:.0f}: {verdict}"
    print(line)


def start(found: Mapping[str, Any]) -> None:
    print(f"\nassay run, later: first character after {starts.text(found['later'])} (goal 1.2)")
    waited, ended = found["first"]
    print(f"assay run, first ever: first character after {waited:.1f} s, done after {ended:.1f} s (goal 20)")


def _three(values: list[float], form: str) -> str:
    return " / ".join(format(value, form) for value in (min(values), median(values), max(values)))


def _limits(found: Limits) -> str:
    reads = f"{found.read / 1e9:.1f} GB/s ({found.read_one / 1e9:.1f} with one thread)"
    return f"{reads}, int8 {found.int8 / 1e9:.0f} Gop/s, float32 {found.float32 / 1e9:.0f} GFLOP/s"

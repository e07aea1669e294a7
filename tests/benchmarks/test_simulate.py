"""The scheduler's policy on a replay of requests with heavy tails."""

from __future__ import annotations

from benchmarks.simulate import SLICE, compared


def test_the_policy_beats_fixed_batches_and_keeps_its_slice() -> None:
    found = compared(1500, 20.0, 3)
    ours, arrival, fixed = (found[name] for name in ("assay", "arrival", "fixed"))
    assert ours["tokens_per_second"] > 3.2 * fixed["tokens_per_second"]
    assert ours["inter_token_p99"] < 1.2 * SLICE < arrival["inter_token_p99"]
    quiet = compared(1500, 2.0, 3)["assay"]
    assert quiet["ttft_p50"] < 0.5 and quiet["inter_token_p99"] < 1.2 * SLICE

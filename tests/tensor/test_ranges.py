"""Free ranges: how many bytes of each may have pages behind them, which decides when memory is given back."""

from __future__ import annotations

from assay.tensor.ranges import FreeRanges, Range


def test_untouched_bytes_stay_untouched_and_touched_ones_are_never_forgotten() -> None:
    ranges = FreeRanges(0, 8192)
    assert ranges.take(4096, 64) == 0
    assert list(ranges) == [Range(4096, 8192, 0)]
    assert ranges.give(1024, 2048) == Range(1024, 2048, 1024)
    assert ranges.give(3072, 4096) == Range(3072, 8192, 1024)
    assert ranges.give(2048, 3072) == Range(1024, 8192, 3072)
    # Nobody knows which part was touched: either may hold all of it.
    assert ranges.take(2048, 4096) == 4096
    assert list(ranges) == [Range(1024, 4096, 3072), Range(6144, 8192, 2048)]


def test_the_alignment_of_a_start_may_leave_a_range_on_either_side() -> None:
    ranges = FreeRanges(64, 1024)
    assert ranges.take(128, 256) == 256
    assert [(free.start, free.end) for free in ranges] == [(64, 256), (384, 1024)]
    assert ranges.take(640, 128) == 384
    assert ranges.take(256, 64) is None
    assert ([free.nbytes for free in ranges], ranges.largest) == ([192], 192)

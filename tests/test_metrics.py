"""The page of metrics is what the code declares."""

from __future__ import annotations

from metrics import PAGE, page


def test_the_page_is_current() -> None:
    """`python tests/metrics.py` writes it anew."""
    assert PAGE.read_text() == page()

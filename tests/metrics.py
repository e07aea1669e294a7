"""Writes docs/metrics.md from the metrics that are declared: `python tests/metrics.py`."""

from __future__ import annotations

from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram

from assay import metrics

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"


def page() -> str:
    """The page as it is to be."""
    lines = [
        "# Metrics",
        "",
        "What `/metrics` has, in Prometheus's format, summed over all processes and their restarts.",
        "Histograms have `_bucket`, `_sum` and `_count`; counters end with `_total`.",
        "",
        "| name | kind | labels | unit | |",
        "|---|---|---|---|---|",
    ]
    for each in vars(metrics).values():
        if isinstance(each, Counter | Gauge | Histogram):
            name = each._name + ("_total" if isinstance(each, Counter) else "")
            unit = "seconds" if name.endswith("_seconds") else "tokens" if "tokens" in name else "1"
            labels = ", ".join(each._labelnames)
            kind = type(each).__name__.lower()
            lines.append(f"| `{name}` | {kind} | {labels} | {unit} | {each._documentation} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())

"""Assay side by side with other engines: correctness first, then ratios.

Run `python -m benchmarks.llm --help`; docs/benchmarks.md says how to read it.
"""

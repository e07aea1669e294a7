"""Assay: an inference engine that people can check."""

__version__ = "0.1.0"

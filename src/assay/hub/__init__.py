"""Catalogue, pull and cache of models."""

from assay.hub.pull import pull, resolve

__all__ = ["pull", "resolve"]

"""Catalogue, pull and cache of models."""

from assay.hub.catalogue import CATALOGUE, Entry
from assay.hub.pull import pull, resolve
from assay.hub.wheel import Progress

__all__ = ["CATALOGUE", "Entry", "Progress", "pull", "resolve"]
